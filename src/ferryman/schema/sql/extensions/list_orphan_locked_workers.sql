-- list_orphan_locked_workers: list workers that are not registered and have held a job or queue for longer than the
-- threshold.
--
-- Not all of them are dead: a Node worker never registers.
create function :schema.list_orphan_locked_workers(stale_threshold interval) returns table (worker_id text)
language sql
set search_path = pg_catalog, pg_temp
as $ferryman$
    select holder.locked_by
    from (
        select locked_by from :schema._private_jobs where locked_at < now() - stale_threshold
        union
        select locked_by from :schema._private_job_queues where locked_at < now() - stale_threshold
    ) as holder
    where
        holder.locked_by is not null
        and not exists (select from :schema._private_workers as worker where worker.id = holder.locked_by)
$ferryman$;
