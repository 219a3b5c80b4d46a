-- Mark jobs as started that were claimed ahead.
--
-- :job_ids, :tokens   array literals of the same length; see complete_claims.sql for the fence
--
-- Returns a row for each claim that the worker still owns, as far as this statement can see. If another session has locked
-- the job's row, the row says so and nothing was written. Claims that are not returned are lost.
--
-- The mark does not wait for the disk: other sessions see it at once, and only a crash of PostgreSQL itself could lose it.
-- Locks: the rows of these jobs, shared, against a sweep that is about to give them back. Rows that another session has
-- locked are skipped.
with relaxed as materialized (
    select set_config('synchronous_commit', 'off', true)
),
claim as (
    select given.id, given.token, timestamptz 'epoch' + given.token * interval '1 microsecond' as locked_at
    from
        relaxed
        cross join unnest(
            cast(cast(:job_ids as text) as bigint[]), cast(cast(:tokens as text) as bigint[])
        ) as given (id, token)
),
met as materialized (
    select claim.id, claim.token, claim.locked_at, free.id is null as is_busy
    from
        claim
        cross join lateral (
            select
            from :schema._private_jobs as job
            where
                job.id = claim.id
                and job.locked_by = cast(:worker_id as text)
                and job.locked_at = claim.locked_at
            offset 0
        ) as ours
        left join lateral (
            select job.id
            from :schema._private_jobs as job
            where
                job.id = claim.id
                and job.locked_by = cast(:worker_id as text)
                and job.locked_at = claim.locked_at
            for share skip locked
        ) as free on true
),
marked as (
    insert into :schema._ferryman_started_jobs as mark (job_id, locked_by, locked_at)
    select met.id, cast(:worker_id as text), met.locked_at
    from met
    where not met.is_busy
    order by met.id
    on conflict (job_id) do update set locked_by = excluded.locked_by, locked_at = excluded.locked_at
)
select met.id, met.token, met.is_busy
from met;
