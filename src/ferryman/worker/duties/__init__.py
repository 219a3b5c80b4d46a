"""What a worker does besides running jobs: recovery, and watching itself and the schema."""
