-- Holders that have had jobs locked for more than :locked_for seconds, and whether they sent a heartbeat in the last
-- :silent_for seconds.
-- Reads all jobs. Locks nothing.
--
-- Columns: holder, how many jobs, the ids of some, seconds of the oldest lock, whether the holder sends heartbeats.
select
    job.locked_by,
    count(*),
    (array_agg(job.id order by job.locked_at, job.id))[1:10],
    cast(extract(epoch from now() - min(job.locked_at)) as float8),
    exists (
        select
        from :schema._private_workers as worker
        where
            worker.id = job.locked_by
            and worker.last_heartbeat_at > now() - cast(:silent_for as float8) * interval '1 second'
    )
from :schema._private_jobs as job
where job.locked_at < now() - cast(:locked_for as float8) * interval '1 second'
group by job.locked_by
order by min(job.locked_at)
limit 20;
