-- needs: row job
-- gives: an expression
-- When a job that is out of attempts failed, or a little later. Graphile and Rust move only run_at when an attempt fails;
-- all others that fail a job for good change updated_at.
greatest(job.updated_at, job.run_at)
