-- One page of jobs in the order of their ids. Null filters let everything through.
select
    -- include: job_columns
from
    :schema._private_jobs as job
    -- include: job_names
where
    job.id > cast(:after as bigint)
    and (cast(:task as text) is null or task.identifier = cast(:task as text))
    and (cast(:queue_name as text) is null or queue.queue_name = cast(:queue_name as text))
    and (cast(:job_key as text) is null or job.key = cast(:job_key as text))
    and (cast(:flags as text[]) is null or job.flags ?& cast(:flags as text[]))
    and (
        cast(:state as text) is null
        or cast(:state as text) =
        -- include: job_state
    )
order by job.id
limit cast(:page_size as int);
