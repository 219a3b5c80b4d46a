-- Delete start marks and progress reports of claims that are over. A row that is written again for a later claim while this
-- statement runs has another locked_at, and stays. Locks: the deleted rows.
with over_marks as materialized (
    select mark.ctid as row_ctid, mark.locked_by, mark.locked_at
    from :schema._ferryman_started_jobs as mark
    where
        not exists (
            select
            from :schema._private_jobs as job
            where job.id = mark.job_id and job.locked_by = mark.locked_by and job.locked_at = mark.locked_at
        )
),
over_progress as materialized (
    select progress.ctid as row_ctid, progress.locked_by, progress.locked_at
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
),
marks as (
    delete from :schema._ferryman_started_jobs as mark
    using over_marks as old
    where mark.ctid = old.row_ctid and mark.locked_by = old.locked_by and mark.locked_at = old.locked_at
    returning mark.job_id
),
progress as (
    delete from :schema._ferryman_progress as progress
    using over_progress as old
    where progress.ctid = old.row_ctid and progress.locked_by = old.locked_by and progress.locked_at = old.locked_at
    returning progress.job_id
)
select (select count(*) from marks), (select count(*) from progress);
