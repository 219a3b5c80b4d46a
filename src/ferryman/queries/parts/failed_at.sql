-- When `job`, which is out of attempts, failed, or a little later. Graphile and Rust move only run_at when an attempt fails;
-- everybody else who lets a job fail for good changes updated_at.
greatest(job.updated_at, job.run_at)
