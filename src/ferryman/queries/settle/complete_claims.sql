-- Delete jobs that this worker has finished and still owns, and free the named queues that their claims held.
--
-- :worker_id                  the worker
-- :tokens, :job_ids           array literals of the same length: tokens, and for each one an array literal of jobs
-- :job_count                  how many jobs these are
-- :queue_tokens, :queue_ids   array literals of the same length: the queues, once for each token that a claim may have
-- :patience                   see parts/patience.sql
--
-- Returns one row: which jobs were deleted, or null if all were. The others no longer belonged to this worker, or changed
-- their token while this statement ran, which a later statement finds out.
--
-- The fence is (locked_by, locked_at): a job that was swept and claimed again, even by the same worker, has another token
-- and is left alone. The queue is freed under the same fence but not through the job, so that it does not stay locked if
-- another session deletes the job's row meanwhile. Rows are found by their id, never by their ctid: an update moves a row, and
-- the fence is then checked once more where the row is.
--
-- A planner that takes the tables for empty, as it does after each vacuum of a drained queue, must not find a way to
-- compare every row with every claim. So rows are found, and tokens compared, by `any`, which can be neither hashed nor
-- merged. Several arrays are unnested without a schema, because the syntax demands it: it means PostgreSQL's own all the same.
-- Locks: the rows of these jobs, then of these queues.
with
-- include: parts/patience
done as (
    delete from :schema._private_jobs as job
    using (
        -- The time is computed once for each token: not for each row, as it would be without the offset.
        select
            array[
                pg_catalog.timestamptz 'epoch'
                operator(pg_catalog.+) (given.token operator(pg_catalog.*) interval '1 microsecond')
            ] as locked_at,
            given.job_ids
        from
            unnest(
                cast(cast(:tokens as pg_catalog.text) as bigint[]),
                cast(cast(:job_ids as pg_catalog.text) as pg_catalog.text[])
            ) as given (token, job_ids)
        offset 0
    ) as claim
    where
        (select patience.is_set from patience)
        and job.id operator(pg_catalog.=) any (cast(claim.job_ids as bigint[]))
        and job.locked_by operator(pg_catalog.=) cast(:worker_id as pg_catalog.text)
        and job.locked_at operator(pg_catalog.=) any (claim.locked_at)
    returning job.id
),
freed as (
    update :schema._private_job_queues as queue
    set locked_by = null, locked_at = null
    from
        unnest(
            cast(cast(:queue_tokens as pg_catalog.text) as bigint[]),
            cast(cast(:queue_ids as pg_catalog.text) as int[])
        ) as claim (token, queue_id)
    where
        (select patience.is_set from patience)
        and queue.id operator(pg_catalog.=) any (array[claim.queue_id])
        and queue.locked_by operator(pg_catalog.=) cast(:worker_id as pg_catalog.text)
        and queue.locked_at operator(pg_catalog.=) any (array[
            pg_catalog.timestamptz 'epoch'
            operator(pg_catalog.+) (claim.token operator(pg_catalog.*) interval '1 microsecond')
        ])
)
select case
    when (select pg_catalog.count(*) from done) operator(pg_catalog.<) cast(:job_count as int)
        then array(select done.id from done)
end;
