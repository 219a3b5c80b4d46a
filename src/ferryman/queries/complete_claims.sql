-- Delete jobs that this worker has finished and still owns, and free the named queues that their claims held.
--
-- :job_ids, :tokens, :queue_ids   array literals of the same length; a queue id of 0 means none
--
-- The fence is (locked_by, locked_at): a job that was swept and claimed again, even by the same worker, has another token
-- and is left alone. The queue is freed under the same fence but not through the job, so that it does not stay locked when
-- the job's row was deleted under us. A row that changes hands while this statement runs is no longer at its place, and is
-- left alone too.
--
-- Rows are looked up one by one (lateral) and then changed at their place in the table: a planner that takes the tables
-- for empty, as it does after each vacuum of a drained queue, might otherwise compare every row with every claim.
-- Locks: the rows of these jobs and queues.
with claim as (
    select
        given.id,
        timestamptz 'epoch' + given.token * interval '1 microsecond' as locked_at,
        given.queue_id
    from unnest(
        cast(cast(:job_ids as text) as bigint[]),
        cast(cast(:tokens as text) as bigint[]),
        cast(cast(:queue_ids as text) as int[])
    ) as given (id, token, queue_id)
),
owned as (
    select job.place
    from
        claim
        cross join lateral (
            select job.ctid as place
            from :schema._private_jobs as job
            where
                job.id = claim.id
                and job.locked_by = cast(:worker_id as text)
                and job.locked_at = claim.locked_at
            offset 0
        ) as job
),
held as (
    select queue.place
    from
        (select * from claim where claim.queue_id > 0) as claim
        cross join lateral (
            select queue.ctid as place
            from :schema._private_job_queues as queue
            where
                queue.id = claim.queue_id
                and queue.locked_by = cast(:worker_id as text)
                and queue.locked_at = claim.locked_at
            offset 0
        ) as queue
),
done as (
    delete from :schema._private_jobs as job using owned where job.ctid = owned.place returning job.id
),
freed as (
    update :schema._private_job_queues as queue
    set locked_by = null, locked_at = null
    from held
    where queue.ctid = held.place
)
select id from done;
