-- Give back jobs whose claim was committed but whose reply was lost, with the attempt, and free their named queues.
--
-- :worker_id   the worker
-- :after       null, or a moment in microseconds: claims made before it are left alone
-- :known_jobs, :known_tokens, :known_queues   array literals of the same length: the claims that the worker knows, once for
--              each token that they may have by now; a queue of 0 means none
--
-- Every other lock of the worker is lost, of any time: clocks may have gone back since the last claim.
-- So this must be sent in a transaction that the worker commits when it has the answer, and before it claims again: carried
-- out late, it would not know of newer claims.
--
-- Returns one row: how many jobs were given back, and whether any job or queue is left because another session has locked
-- its row.
--
-- A superseded job does not get its attempt back; see parts/is_superseded.sql.
-- Reads the whole table, because no index leads with locked_by: send it only after a connection was lost.
-- Locks: the rows of these jobs and queues, without waiting. They are changed by their id and fence; see
-- complete_claims.sql.
with heard as (
    select timestamptz 'epoch' + cast(:after as bigint) * interval '1 microsecond' as at
),
known as (
    select given.job_id, given.queue_id, timestamptz 'epoch' + given.token * interval '1 microsecond' as locked_at
    from unnest(
        cast(cast(:known_jobs as text) as bigint[]),
        cast(cast(:known_tokens as text) as bigint[]),
        cast(cast(:known_queues as text) as int[])
    ) as given (job_id, token, queue_id)
),
lost as materialized (
    select job.id, job.locked_at, job.job_queue_id
    from :schema._private_jobs as job
    where
        job.locked_by = cast(:worker_id as text)
        and (cast(:after as bigint) is null or job.locked_at > (select at from heard))
        and not exists (select from known where known.job_id = job.id and known.locked_at = job.locked_at)
),
free_job as materialized (
    select lost.id, lost.locked_at
    from
        lost
        cross join lateral (
            select
            from :schema._private_jobs as job
            where job.id = lost.id and job.locked_by = cast(:worker_id as text) and job.locked_at = lost.locked_at
            for update skip locked
        ) as free
),
returned as (
    update :schema._private_jobs as job
    set
        attempts = case
            when
                -- include: parts/is_superseded
                then job.attempts
            else greatest(0, job.attempts - 1)
        end,
        last_error = case
            when
                -- include: parts/is_superseded
                then coalesce(
                    job.last_error,
                    -- include: parts/superseded_error
                )
            else job.last_error
        end,
        updated_at = now(),
        locked_by = null,
        locked_at = null
    from free_job
    where
        job.id = any (array[free_job.id])
        and job.locked_by = cast(:worker_id as text)
        and job.locked_at is not distinct from free_job.locked_at
    returning job.id
),
lost_queue as materialized (
    select queue.id, queue.locked_at
    from :schema._private_job_queues as queue
    where
        queue.locked_by = cast(:worker_id as text)
        and (cast(:after as bigint) is null or queue.locked_at > (select at from heard))
        and not exists (select from known where known.queue_id = queue.id and known.locked_at = queue.locked_at)
),
free_queue as materialized (
    select lost_queue.id, lost_queue.locked_at
    from
        lost_queue
        cross join lateral (
            select
            from :schema._private_job_queues as queue
            where
                queue.id = lost_queue.id
                and queue.locked_by = cast(:worker_id as text)
                and queue.locked_at = lost_queue.locked_at
            for update skip locked
        ) as free
    -- Not before its job is given back: the next one would overtake it.
    where
        lost_queue.id <> all (
            array(
                select lost.job_queue_id
                from lost
                where lost.job_queue_id is not null and lost.id <> all (array(select returned.id from returned))
            )
        )
),
freed as (
    update :schema._private_job_queues as queue
    set locked_by = null, locked_at = null
    from free_queue
    where
        queue.id = any (array[free_queue.id])
        and queue.locked_by = cast(:worker_id as text)
        and queue.locked_at is not distinct from free_queue.locked_at
    returning queue.id
)
select
    (select count(*) from returned) as returned,
    (select count(*) from returned) < (select count(*) from lost)
    or (select count(*) from freed) < (select count(*) from lost_queue) as is_any_left;
