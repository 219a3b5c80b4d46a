-- Forget how far jobs were that no longer run. Should another worker run one of them by now, it will tell again.
--
-- :job_ids   which
--
-- Locks: these rows of the progress table.
delete from :schema._ferryman_progress as progress
where progress.job_id = any (cast(:job_ids as bigint[]));
