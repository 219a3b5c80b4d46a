-- needs: row job
-- gives: a condition
-- True if a job has none of the flags that this claim must avoid.
--
-- :forbidden_flags   the flags, or null
(cast(:forbidden_flags as text[]) is null or (job.flags ?| cast(:forbidden_flags as text[])) is not true)
