-- Which of these jobs still exist, and who has locked them, by which token (see complete_claims.sql). Locks nothing.
select job.id, job.locked_by, cast(extract(epoch from job.locked_at) * 1000000 as bigint)
from :schema._private_jobs as job
where job.id = any (cast(:job_ids as bigint[]));
