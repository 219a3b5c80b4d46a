-- How many start marks, and how many reports of progress, belong to claims that are over. Locks nothing.
select
    (
        select count(*)
        from :schema._ferryman_started_jobs as mark
        where
            not exists (
                select
                from :schema._private_jobs as job
                where job.id = mark.job_id and job.locked_by = mark.locked_by and job.locked_at = mark.locked_at
            )
    ),
    (
        select count(*)
        from :schema._ferryman_progress as progress
        where
            not exists (
                select
                from :schema._private_jobs as job
                where
                    job.id = progress.job_id
                    and job.locked_by = progress.locked_by
                    and job.locked_at = progress.locked_at
            )
    );
