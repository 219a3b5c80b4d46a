"""The duties of a worker besides running jobs: recovery, and watching itself and the schema."""
