-- Jobs that could have run for more than :waiting_for seconds and were not claimed, by task, and whether a worker is there
-- that has the task. The time for which the server was down does not count. Jobs of a queue that is locked are left out.
--
-- :waiting_for     seconds
-- :silent_for      seconds without a heartbeat after which a worker is not alive; never less than two of its own intervals
-- :session_class   the class of the workers' session locks: a worker that lost its session is not alive either
--
-- Columns: task, how many jobs, for how many seconds the oldest has waited, whether a live worker has the task (one that
-- does not say its tasks may have it), how many registered workers are alive, and whether a worker that is not registered
-- holds a job: it may be busy with that one for long. Reads all jobs. Locks nothing.
with alive as materialized (
    select known.id, known.metadata -> 'tasks' as tasks
    from :schema._private_workers as known
    where
        extract(epoch from now() - greatest(known.last_heartbeat_at, pg_postmaster_start_time())) <= greatest(
            cast(:silent_for as float8),
            2 * coalesce(
                -- include: parts/beat_interval
                , 30  -- a Rust worker does not say it; this is its default
            )
        )
        and (
            jsonb_typeof(known.metadata -> 'session_key') is distinct from 'number'
            or (known.metadata -> 'session_key') in (
                -- include: parts/held_session_keys
            )
        )
),
waiting as (
    select
        job.task_id,
        count(*) as number,
        max(extract(epoch from now() - greatest(job.run_at, job.created_at, pg_postmaster_start_time()))) as seconds
    from
        :schema._private_jobs as job
        left join :schema._private_job_queues as queue on queue.id = job.job_queue_id
    where
        job.locked_at is null
        and job.attempts < job.max_attempts
        and queue.locked_at is null
        and greatest(job.run_at, job.created_at, pg_postmaster_start_time())
        < now() - cast(:waiting_for as float8) * interval '1 second'
    group by job.task_id
)
select
    task.identifier,
    waiting.number,
    cast(waiting.seconds as float8),
    exists (
        select
        from alive
        where jsonb_typeof(alive.tasks) is distinct from 'array' or alive.tasks @> to_jsonb(task.identifier)
    ),
    (select count(*) from alive),
    exists (
        select
        from :schema._private_jobs as held
        where
            held.locked_at > now() - interval '4 hours'  -- an older lock is void to Graphile Worker
            and not exists (select from :schema._private_workers as known where known.id = held.locked_by)
    )
from
    waiting
    join :schema._private_tasks as task on task.id = waiting.task_id
order by waiting.number desc, task.identifier;
