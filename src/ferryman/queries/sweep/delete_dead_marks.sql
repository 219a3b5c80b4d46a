-- Delete start marks of claims that are over, a batch at a time. Locks: the deleted rows.
--
-- Each is compared with its job by the job's id (lateral). A job that is locked by the same claim keeps its mark.
delete from :schema._ferryman_started_jobs as mark
where
    mark.ctid = any (
        array(
            select old.ctid
            from :schema._ferryman_started_jobs as old
            where
                not exists (
                    select
                    from :schema._private_jobs as job
                    where job.id = old.job_id and job.locked_by = old.locked_by and job.locked_at = old.locked_at
                )
            limit cast(:batch as int)
            for update skip locked
        )
    )
returning mark.job_id;
