-- The next job that these workers hold, in the order of ids, of those that lock_interrupted_jobs.sql would lock. Sent if that
-- job could not be recovered, to name it. Locks: its row, without waiting.
select job.id
from :schema._private_jobs as job
where job.locked_by = any (cast(:worker_ids as text[])) and job.id > cast(:after as bigint)
order by job.id
limit 1
for update skip locked;
