-- Renew the locks of long jobs, so that Graphile's 4-hour rule does not release them.
--
-- :worker_id                      the worker that has the claims
-- :job_ids, :tokens, :queue_ids   array literals of the same length, a row for each token that a claim may have by now; a
--                                 queue id of 0 means none; see complete_claims.sql for the fence
-- :new_token                      the token that they get
--
-- Returns for each job 'renewed', 'busy' (another session has locked its row), 'lost' (it no longer belongs to this worker)
-- or 'gone' (its row no longer exists).
--
-- Rows that belong to the claim move with it: its named queue, its start mark and its progress. A superseded job is known by
-- the claim in its flags, or by its clocks, and must be known by both afterwards too; see parts/is_superseded.sql.
-- Locks: the rows of these jobs and what belongs to them, without waiting: a handler may be completing its job in a
-- transaction of its own, and must not keep the others from being renewed. Locked rows are changed by their id and fence;
-- see complete_claims.sql.
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
renewal as (
    select timestamptz 'epoch' + cast(:new_token as bigint) * interval '1 microsecond' as at
),
owned as materialized (
    select claim.id, claim.locked_at, job.is_superseded
    from
        claim
        cross join lateral (
            select
                -- include: parts/is_superseded
                as is_superseded
            from :schema._private_jobs as job
            where
                job.id = claim.id
                and job.locked_by = cast(:worker_id as text)
                and job.locked_at = claim.locked_at
            for update skip locked
        ) as job
),
held as materialized (
    select claim.queue_id, claim.locked_at
    from
        (
            select * from claim where claim.queue_id > 0 and claim.id = any (array(select owned.id from owned))
        ) as claim
        cross join lateral (
            select
            from :schema._private_job_queues as queue
            where
                queue.id = claim.queue_id
                and queue.locked_by = cast(:worker_id as text)
                and queue.locked_at = claim.locked_at
            for update skip locked
        ) as queue
),
renewed as (
    update :schema._private_jobs as job
    set
        locked_at = renewal.at,
        updated_at = case
            when owned.is_superseded then renewal.at + interval '1 microsecond'
            else job.updated_at
        end,
        flags = case
            when owned.is_superseded
                then coalesce(job.flags, '{}') || jsonb_build_object(
                    'ferryman:superseded', jsonb_build_array(job.locked_by, renewal.at at time zone 'UTC')
                )
            else job.flags
        end
    from
        owned
        cross join renewal
    where
        job.id = any (array[owned.id])
        and job.locked_by = cast(:worker_id as text)
        and job.locked_at is not distinct from owned.locked_at
    returning job.id
),
renewed_queue as (
    update :schema._private_job_queues as queue
    set locked_at = renewal.at
    from
        held
        cross join renewal
    where
        queue.id = any (array[held.queue_id])
        and queue.locked_by = cast(:worker_id as text)
        and queue.locked_at is not distinct from held.locked_at
),
renewed_mark as (
    update :schema._ferryman_started_jobs as mark
    set locked_at = (select at from renewal)
    where
        mark.job_id = any (array(select owned.id from owned))
        and mark.locked_by = cast(:worker_id as text)
        and mark.locked_at = any (array(select claim.locked_at from claim where claim.id = mark.job_id))
),
renewed_progress as (
    update :schema._ferryman_progress as progress
    set locked_at = (select at from renewal)
    where
        progress.job_id = any (array(select owned.id from owned))
        and progress.locked_by = cast(:worker_id as text)
        and progress.locked_at = any (array(select claim.locked_at from claim where claim.id = progress.job_id))
)
select
    wanted.id,
    case
        when wanted.id = any (array(select renewed.id from renewed)) then 'renewed'
        when job.id is null then 'gone'
        when
            job.locked_by = cast(:worker_id as text)
            and job.locked_at = any (array(select claim.locked_at from claim where claim.id = wanted.id))
            then 'busy'
        else 'lost'
    end
from
    (select distinct claim.id from claim) as wanted
    left join lateral (
        select job.id, job.locked_by, job.locked_at
        from :schema._private_jobs as job
        where job.id = wanted.id
        offset 0
    ) as job on true;
