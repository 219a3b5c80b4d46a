-- Which of these jobs are still there, and who has locked them. Locks nothing.
select job.id, job.locked_by
from :schema._private_jobs as job
where job.id = any (cast(:job_ids as bigint[]));
