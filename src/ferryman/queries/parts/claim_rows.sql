-- Part of the claims: the jobs that were claimed, one row each, after the row that tells about the claim.
union all
select
    claimed.id,
    claimed.task_id,
    cast(claimed.payload as text),
    claimed.attempts,
    claimed.max_attempts,
    claimed.job_queue_id,
    case when claimed.job_queue_id is not null then
        (select queue.queue_name from :schema._private_job_queues as queue where queue.id = claimed.job_queue_id)
    end,
    claimed.priority,
    claimed.run_at,
    claimed.last_error,
    claimed.created_at,
    claimed.updated_at,
    claimed.key,
    claimed.revision,
    case jsonb_typeof(claimed.flags) when 'object' then array(select jsonb_object_keys(claimed.flags)) end,
    null,
    null,
    null,
    null,
    null,
    null,
    null,
    null
from claimed;
