-- Free the queues that dead workers hold without a job, record the loss of these workers, and delete the rows of those that
-- hold nothing any more. One that still holds something keeps its row: as an orphan it would be judged by the age of its locks.
--
-- :workers   a JSON array of id, reason and recovered_jobs
--
-- Reads all jobs and queues, because no index leads with locked_by. Locks: the rows of these queues, without waiting, and of
-- these workers. A queue whose row another session has locked is left for a later sweep.
with dead as (
    select item.*
    from json_to_recordset(cast(cast(:workers as text) as json)) as item (
        id text, reason text, recovered_jobs int
    )
),
held as (
    select job.locked_by as id, job.job_queue_id
    from :schema._private_jobs as job
    where job.locked_by = any (array(select dead.id from dead))
),
empty_queue as (
    select queue.id, queue.locked_by, queue.locked_at
    from :schema._private_job_queues as queue
    where
        queue.locked_by = any (array(select dead.id from dead))
        and queue.id not in (select held.job_queue_id from held where held.job_queue_id is not null)
),
free_queue as materialized (
    select empty_queue.id, empty_queue.locked_by, empty_queue.locked_at
    from
        empty_queue
        cross join lateral (
            select
            from :schema._private_job_queues as queue
            where
                queue.id = empty_queue.id
                and queue.locked_by = empty_queue.locked_by
                and queue.locked_at is not distinct from empty_queue.locked_at
            for update skip locked
        ) as free
),
freed as (
    update :schema._private_job_queues as queue
    set locked_by = null, locked_at = null
    from free_queue
    where
        queue.id = any (array[free_queue.id])
        and queue.locked_by is not distinct from free_queue.locked_by
        and queue.locked_at is not distinct from free_queue.locked_at
    returning queue.id
),
holder as (
    select held.id from held
    union
    select empty_queue.locked_by from empty_queue where empty_queue.id not in (select freed.id from freed)
),
remembered as (
    insert into :schema._ferryman_lost_workers as lost
        (worker_id, started_at, last_heartbeat_at, reason, metadata, recovered_jobs)
    select dead.id, worker.started_at, worker.last_heartbeat_at, dead.reason, worker.metadata, dead.recovered_jobs
    from
        dead
        left join :schema._private_workers as worker on worker.id = dead.id
    where dead.recovered_jobs > 0 or dead.id not in (select holder.id from holder)
    order by dead.id
    on conflict (worker_id) do update set
        started_at = coalesce(excluded.started_at, lost.started_at),
        last_heartbeat_at = coalesce(excluded.last_heartbeat_at, lost.last_heartbeat_at),
        noticed_at = excluded.noticed_at,
        reason = excluded.reason,
        metadata = coalesce(excluded.metadata, lost.metadata),
        recovered_jobs = lost.recovered_jobs + excluded.recovered_jobs
)
delete from :schema._private_workers as worker
where worker.id = any (array(select dead.id from dead)) and worker.id not in (select holder.id from holder)
returning worker.id;
