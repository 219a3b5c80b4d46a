-- Jobs whose times PostgreSQL can store but that never come: 'infinity', or far in the future.
-- Reads all jobs. Locks nothing.
--
-- Columns: 'locked_at' for locks that never expire, 'run_at' for jobs that are never due; how many, and the ids of some.
select odd.name, count(*), (array_agg(odd.id order by odd.id))[1:10]
from (
    select job.id, 'locked_at' as name
    from :schema._private_jobs as job
    where job.locked_at > now() + interval '1 day'
    union all
    select job.id, 'run_at'
    from :schema._private_jobs as job
    where job.run_at >= timestamptz '10000-01-01' and job.attempts < job.max_attempts
) as odd
group by odd.name
order by odd.name;
