exists (
    -- The flag must be there, and must not say no.
    select
    from unnest(cast(:flags as text[])) as wanted (flag)
    where
        jsonb_typeof(job.flags) = 'object'
        and job.flags -> wanted.flag not in (jsonb 'false', jsonb 'null', jsonb '0', jsonb '""')
)
