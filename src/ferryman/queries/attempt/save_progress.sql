-- Store the progress of running jobs, each only if the worker still has the claim under which its handler reported.
--
-- :told   a JSON array of {id, locked_by, token, fraction, message}; see complete_claims.sql for the token
--
-- Jobs are looked up one by one, for the reason in complete_claims.sql, and not locked: if a job is lost right now, its row
-- of progress no longer counts.
insert into :schema._ferryman_progress as progress (job_id, locked_by, locked_at, fraction, message, reported_at)
select told.id, told.locked_by, job.locked_at, told.fraction, told.message, now()
from
    json_to_recordset(cast(cast(:told as text) as json)) as told (
        id bigint, locked_by text, token bigint, fraction float8, message text
    )
    cross join lateral (
        select job.locked_at
        from :schema._private_jobs as job
        where
            job.id = told.id
            and job.locked_by = told.locked_by
            and job.locked_at = timestamptz 'epoch' + told.token * interval '1 microsecond'
        offset 0
    ) as job
on conflict (job_id) do update
set
    locked_by = excluded.locked_by,
    locked_at = excluded.locked_at,
    fraction = excluded.fraction,
    message = excluded.message,
    reported_at = excluded.reported_at;
