-- Jobs that failed for good because workers crashed while they ran them, and still exist, the newest first. Locks nothing.
--
-- Columns: job, task, when, how many of its crashes are on record, how many such jobs there are.
select
    poisoned.job_id,
    poisoned.task_identifier,
    poisoned.noticed_at,
    (select count(*) from :schema._ferryman_crashes as crash where crash.job_id = poisoned.job_id),
    count(*) over ()
from (
    select distinct on (crash.job_id) crash.job_id, crash.task_identifier, crash.noticed_at
    from :schema._ferryman_crashes as crash
    where crash.decision = 'poisoned'
    order by crash.job_id, crash.noticed_at desc
) as poisoned
where
    exists (
        select
        from :schema._private_jobs as job
        where job.id = poisoned.job_id and job.attempts >= job.max_attempts and job.locked_at is null
    )
order by poisoned.noticed_at desc, poisoned.job_id
limit 10;
