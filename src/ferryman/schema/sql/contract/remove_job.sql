-- remove_job: make sure that the job with this key does not start any more.
--
-- A waiting job is deleted. A running one is retired: it loses its key and all further attempts, but may finish. A lock
-- older than four hours counts as forgotten, as everywhere in Graphile. The queue of such a job is freed too if it is
-- held under the same lock, since nothing else would free it.
--
-- Locks: the row of the job first, so that the decision holds; then the row of its queue, in the order of a completion.
create or replace function :schema.remove_job(job_key text) returns :schema._private_jobs
language plpgsql
strict
as $ferryman$
#variable_conflict use_column
declare
    removed :schema._private_jobs;
begin
    select * into removed from :schema._private_jobs where key operator(pg_catalog.=) remove_job.job_key for update;
    if not found then
        return removed;
    end if;

    if removed.locked_at operator(pg_catalog.>=) (pg_catalog.now() operator(pg_catalog.-) interval '4 hours') then
        update :schema._private_jobs
        set key = null, attempts = max_attempts, updated_at = pg_catalog.clock_timestamp()
        where id operator(pg_catalog.=) removed.id
        returning * into removed;
        return removed;
    end if;

    delete from :schema._private_jobs where id operator(pg_catalog.=) removed.id;
    update :schema._private_job_queues
    set locked_at = null, locked_by = null
    where
        id operator(pg_catalog.=) removed.job_queue_id
        and locked_by operator(pg_catalog.=) removed.locked_by
        and locked_at operator(pg_catalog.<) (pg_catalog.now() operator(pg_catalog.-) interval '4 hours');
    perform pg_catalog.pg_notify('jobs:insert', pg_catalog.concat('{"r":', pg_catalog.random(), ',"count":-1}'));
    return removed;
end
$ferryman$;
