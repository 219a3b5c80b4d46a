-- A trigger that marks a superseded job, which must end with the claim it has: its key was used again or removed, or it
-- was failed for good. parts/is_superseded.sql reads the mark.
--
-- Each of these changes sets the key or the error of a locked job, and leaves it locked and without attempts, in the
-- functions of Node, of Rust and of ours. A claim sets neither, and a settlement unlocks. It is an AFTER trigger: with
-- a BEFORE trigger, PostgreSQL would lock each claimed row once more. So a row is written twice, but only when it is
-- superseded.
--
-- Locks: the table of jobs, against writers, while it is read once: about half a second for each million jobs. While it
-- waits for the lock, all later writers wait behind it: so it waits a tenth of a second at most, and the change is
-- tried again later.
set local lock_timeout = '100ms';
lock table :schema._private_jobs in share row exclusive mode;

create function :schema._ferryman_mark_superseded() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $ferryman$
begin
    update :schema._private_jobs as job
    set
        flags = coalesce(job.flags, '{}') || jsonb_build_object(
            'ferryman:superseded',
            -- include: parts/superseded_claim
        )
    where job.id = new.id;
    return null;
end
$ferryman$;

create trigger _ferryman_mark_superseded
after update of key, last_error on :schema._private_jobs
for each row
when (old.locked_at is not null and new.locked_at is not null and new.attempts >= new.max_attempts)
execute function :schema._ferryman_mark_superseded();

-- The trigger also marks jobs that were superseded before it existed. They are recognised by their timestamps, as before
-- this extension, and by the table of Rust's revision 22.
update :schema._private_jobs
set last_error = last_error
where key is null and attempts >= max_attempts and updated_at > locked_at;

do $ferryman$
begin
    update :schema._private_jobs as job
    set last_error = job.last_error
    from :schema._private_job_retirements as retired
    where retired.id = job.id and job.locked_at is not null;
exception
    when undefined_table then null;
end
$ferryman$;
