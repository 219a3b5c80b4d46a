-- The progress of a running job, if its handler has reported any and the claim still holds. Locks nothing.
select progress.fraction, progress.message, progress.reported_at
from :schema._ferryman_progress as progress
where
    progress.job_id operator(pg_catalog.=) cast(:job_id as bigint)
    and exists (
        select
        from :schema._private_jobs as job
        where
            job.id operator(pg_catalog.=) progress.job_id
            and job.locked_by operator(pg_catalog.=) progress.locked_by
            and job.locked_at operator(pg_catalog.=) progress.locked_at
    );
