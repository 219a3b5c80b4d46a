-- needs: nothing
-- gives: moment, shared, level
-- The priorities that have available jobs, each with its earliest run_at. Recursive; comes with parts/claim_moment.sql.
--
-- The index leads with the priority, so each priority is probed on its own, and only as far as the claim gets: jobs that
-- are not due yet cost one probe, however many they are. The first level stands before all priorities, and is never due.
-- include: parts/claim_moment
level as (
    select -32769 as priority, timestamptz 'infinity' as run_at
    union all
    select next.priority, next.run_at
    from
        level
        cross join lateral (
            select job.priority, job.run_at
            from :schema._private_jobs as job
            where job.is_available = true and job.priority > level.priority
            order by job.priority, job.run_at
            limit 1
        ) as next
),
