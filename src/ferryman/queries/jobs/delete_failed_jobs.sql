-- Delete jobs that are out of attempts and not running. Locks: their rows. A job that another session reschedules at the same
-- moment is checked again and stays.
--
-- :age   seconds: jobs that failed later are kept; null deletes all
with deleted as (
    delete from :schema._private_jobs as job
    where
        job.attempts >= job.max_attempts
        and job.locked_at is null
        and (
            cast(:age as float8) is null
            or
            -- include: parts/failed_at
            < now() - cast(:age as float8) * interval '1 second'
        )
    returning 1
)
select count(*) from deleted;
