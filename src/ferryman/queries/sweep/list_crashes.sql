-- The crashes of a job: each time that it was recovered from a dead worker, oldest first. Locks nothing.
select
    crash.noticed_at,
    crash.worker_id,
    crash.recovered_by,
    crash.attempt,
    crash.started,
    crash.decision,
    crash.reason
from :schema._ferryman_crashes as crash
where crash.job_id = cast(:job_id as bigint)
order by crash.noticed_at, crash.id;
