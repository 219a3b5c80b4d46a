-- Lock jobs that this worker is about to settle, and the queues that their claims hold, unless another session has locked
-- them. The settlement that follows in the same transaction then never waits.
--
-- :worker_id                      the worker
-- :job_ids, :tokens, :queue_ids   array literals of the same length, a row for each token that a claim may have by now; a
--                                 queue id of 0 means none; see complete_claims.sql for the fence
--
-- Returns the jobs that must wait: another session has locked their row, or their queue's row.
-- Locks: the rows of these jobs and queues, without waiting.
with claim as (
    select given.id, timestamptz 'epoch' + given.token * interval '1 microsecond' as locked_at, given.queue_id
    from unnest(
        cast(cast(:job_ids as text) as bigint[]),
        cast(cast(:tokens as text) as bigint[]),
        cast(cast(:queue_ids as text) as int[])
    ) as given (id, token, queue_id)
)
select claim.id
from
    claim
    cross join lateral (
        select
        from :schema._private_jobs as job
        where job.id = claim.id and job.locked_by = cast(:worker_id as text) and job.locked_at = claim.locked_at
        offset 0
    ) as ours
    left join lateral (
        select job.id
        from :schema._private_jobs as job
        where job.id = claim.id and job.locked_by = cast(:worker_id as text) and job.locked_at = claim.locked_at
        for update skip locked
    ) as free on true
where free.id is null
union
select claim.id
from
    claim
    cross join lateral (
        select
        from :schema._private_job_queues as queue
        where
            queue.id = claim.queue_id
            and queue.locked_by = cast(:worker_id as text)
            and queue.locked_at = claim.locked_at
        offset 0
    ) as ours
    left join lateral (
        select queue.id
        from :schema._private_job_queues as queue
        where
            queue.id = claim.queue_id
            and queue.locked_by = cast(:worker_id as text)
            and queue.locked_at = claim.locked_at
        for update skip locked
    ) as free on true
where free.id is null;
