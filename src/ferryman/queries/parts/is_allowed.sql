-- Part of the claims: whether a job has none of the flags that the caller leaves alone.
(cast(:forbidden_flags as text[]) is null or (job.flags ?| cast(:forbidden_flags as text[])) is not true)
