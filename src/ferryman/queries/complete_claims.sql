-- Delete jobs that this worker has finished and still owns, and free the named queues that their claims held.
--
-- :tokens, :job_ids            array literals of the same length: tokens, and for each one an array literal of jobs
-- :queue_tokens, :queue_ids    array literals of the same length
--
-- The fence is (locked_by, locked_at): a job that was swept and claimed again, even by the same worker, has another token
-- and is left alone. The queue is freed under the same fence but not through the job, so that it does not stay locked when
-- the job's row was deleted under us. A row that changes hands while this statement runs is left alone too: when its lock
-- is free, the fence is looked at once more.
--
-- A planner that takes the tables for empty, as it does after each vacuum of a drained queue, must not find a way to
-- compare every row with every claim. So jobs are found by `any`, and tokens compared by `is not distinct from`, neither
-- of which can be hashed or merged; and queues are looked up one by one (lateral), then changed at their place.
-- Locks: the rows of these jobs and queues.
with done as (
    delete from :schema._private_jobs as job
    using unnest(cast(cast(:tokens as text) as bigint[]), cast(cast(:job_ids as text) as text[])) as claim (token, job_ids)
    where
        job.id = any (cast(claim.job_ids as bigint[]))
        and job.locked_by = cast(:worker_id as text)
        and job.locked_at is not distinct from timestamptz 'epoch' + claim.token * interval '1 microsecond'
    returning job.id
),
held as (
    select queue.place
    from
        unnest(
            cast(cast(:queue_tokens as text) as bigint[]), cast(cast(:queue_ids as text) as int[])
        ) as claim (token, queue_id)
        cross join lateral (
            select queue.ctid as place
            from :schema._private_job_queues as queue
            where
                queue.id = claim.queue_id
                and queue.locked_by = cast(:worker_id as text)
                and queue.locked_at = timestamptz 'epoch' + claim.token * interval '1 microsecond'
            offset 0
        ) as queue
),
freed as (
    update :schema._private_job_queues as queue
    set locked_by = null, locked_at = null
    from held
    where queue.ctid = held.place
)
select id from done;
