-- Write down that jobs which were claimed ahead begin to run; those that come back are still ours and may.
--
-- :job_ids, :tokens   array literals of the same length; see complete_claims.sql for the fence
--
-- Not waited for until it is on disk: everybody sees it at once, and only a crash of PostgreSQL itself could lose it.
-- Locks: the rows of these jobs, shared, against a sweep that is about to give them back.
with relaxed as materialized (
    select set_config('synchronous_commit', 'off', true)
),
claim as (
    select given.id, timestamptz 'epoch' + given.token * interval '1 microsecond' as locked_at
    from
        relaxed
        cross join unnest(
            cast(cast(:job_ids as text) as bigint[]), cast(cast(:tokens as text) as bigint[])
        ) as given (id, token)
),
owned as (
    select job.id, job.locked_at
    from
        claim
        cross join lateral (
            select found.id, found.locked_at
            from :schema._private_jobs as found
            where
                found.id = claim.id
                and found.locked_by = cast(:worker_id as text)
                and found.locked_at = claim.locked_at
            for share
        ) as job
)
insert into :schema._ferryman_started_jobs as mark (job_id, locked_by, locked_at)
select owned.id, cast(:worker_id as text), owned.locked_at
from owned
order by owned.id
on conflict (job_id) do update set locked_by = excluded.locked_by, locked_at = excluded.locked_at
returning mark.job_id;
