-- needs: row job
-- gives: a condition
-- True if a job has a resilient flag: one of :flags, with a value that does not say no.
exists (
    select
    from unnest(cast(:flags as text[])) as wanted (flag)
    where
        jsonb_typeof(job.flags) = 'object'
        and job.flags -> wanted.flag not in (jsonb 'false', jsonb 'null', jsonb '0', jsonb '""')
)
