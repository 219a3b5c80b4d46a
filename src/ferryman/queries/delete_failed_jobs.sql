-- Delete jobs that are out of attempts and not running. Locks: their rows; a job that somebody reschedules at the same
-- moment is looked at again and stays.
with deleted as (
    delete from :schema._private_jobs where attempts >= max_attempts and locked_at is null returning 1
)
select count(*) from deleted;
