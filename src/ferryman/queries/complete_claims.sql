-- Delete jobs that this worker has finished and still owns, and free the named queues that their claims held.
--
-- :tokens, :job_ids           array literals of the same length: tokens, and for each one an array literal of jobs
-- :job_count                  how many jobs these are
-- :queue_tokens, :queue_ids   array literals of the same length: the queues, once for each token that a claim may have
-- :patience                   see settle_patience.sql
--
-- One row comes back: which jobs were deleted, or null if all were. The others were not ours any more, or changed their
-- token while this statement ran, which a later one can tell.
--
-- The fence is (locked_by, locked_at): a job that was swept and claimed again, even by the same worker, has another token
-- and is left alone. The queue is freed under the same fence but not through the job, so that it does not stay locked when
-- the job's row was deleted under us. Rows are found by their id, never by the place where they were seen: whoever changes
-- a row moves it, and the fence is then looked at once more where the row is.
--
-- A planner that takes the tables for empty, as it does after each vacuum of a drained queue, must not find a way to
-- compare every row with every claim. So rows are found by `any`, and tokens compared by `is not distinct from`, neither
-- of which can be hashed or merged.
-- Locks: the rows of these jobs, then of these queues.
with
-- include: settle_patience
done as (
    delete from :schema._private_jobs as job
    using unnest(cast(cast(:tokens as text) as bigint[]), cast(cast(:job_ids as text) as text[])) as claim (token, job_ids)
    where
        (select patience.is_set from patience)
        and job.id = any (cast(claim.job_ids as bigint[]))
        and job.locked_by = cast(:worker_id as text)
        and job.locked_at is not distinct from timestamptz 'epoch' + claim.token * interval '1 microsecond'
    returning job.id
),
freed as (
    update :schema._private_job_queues as queue
    set locked_by = null, locked_at = null
    from
        unnest(
            cast(cast(:queue_tokens as text) as bigint[]), cast(cast(:queue_ids as text) as int[])
        ) as claim (token, queue_id)
    where
        (select patience.is_set from patience)
        and queue.id = any (array[claim.queue_id])
        and queue.locked_by = cast(:worker_id as text)
        and queue.locked_at is not distinct from timestamptz 'epoch' + claim.token * interval '1 microsecond'
)
select case when (select count(*) from done) < cast(:job_count as int) then array(select done.id from done) end;
