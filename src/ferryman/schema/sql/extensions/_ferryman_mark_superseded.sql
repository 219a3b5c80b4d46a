-- Marks a job that must end with the claim it has: its key was used again or removed, or somebody failed it for good. See
-- parts/is_superseded.sql, which reads the mark.
--
-- All who do one of these things set the key or the error of a job that is locked, and leave it locked and without attempts:
-- in functions of Node, of Rust and of ours. A claim sets neither, and a settlement unlocks. The trigger comes after the row
-- and not before it, where PostgreSQL would lock each row that is claimed once more. Instead the row is written twice, but
-- only where this happens.
--
-- Locks: the table of jobs, against everybody who writes, while it is read once: about half a second for each million jobs. Who
-- asks for the lock holds up all who come after: so not for longer than a tenth of a second, and the change is tried again
-- later.
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

-- Jobs that were superseded before today get their mark from the trigger too. They are told by their clocks, as they were
-- until now, and by the table of Rust's revision 22.
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
