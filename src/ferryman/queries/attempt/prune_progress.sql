-- Delete the progress of claims that are over because their worker died.
-- Locks: these rows of the progress table.
delete from :schema._ferryman_progress as progress
where
    not exists (
        select
        from :schema._private_jobs as job
        where job.id = progress.job_id and job.locked_by = progress.locked_by and job.locked_at = progress.locked_at
    );
