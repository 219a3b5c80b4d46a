-- Let go of dead workers: free the queues that they hold without a job, remember them, and delete those that hold
-- nothing any more. One that still holds a job keeps its row: as an orphan it would be judged by the age of its locks.
--
-- :workers   a JSON array of id, reason and recovered_jobs
--
-- Reads all jobs and queues, for want of indexes on locked_by. Locks: the rows of these queues and workers.
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
freed as (
    update :schema._private_job_queues as queue
    set locked_by = null, locked_at = null
    where
        queue.locked_by = any (array(select dead.id from dead))
        and queue.id not in (select held.job_queue_id from held where held.job_queue_id is not null)
),
remembered as (
    insert into :schema._ferryman_lost_workers as lost
        (worker_id, started_at, last_heartbeat_at, reason, metadata, recovered_jobs)
    select dead.id, worker.started_at, worker.last_heartbeat_at, dead.reason, worker.metadata, dead.recovered_jobs
    from
        dead
        left join :schema._private_workers as worker on worker.id = dead.id
    where dead.recovered_jobs > 0 or dead.id not in (select held.id from held)
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
where worker.id = any (array(select dead.id from dead)) and worker.id not in (select held.id from held)
returning worker.id;
