-- Delete the progress of jobs that have ended. If another worker runs one of them by now, it reports again.
--
-- :job_ids   the jobs
--
-- Locks: these rows of the progress table.
delete from :schema._ferryman_progress as progress
where progress.job_id = any (cast(:job_ids as bigint[]));
