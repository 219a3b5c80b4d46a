-- needs: header, claimed
-- gives: a query
-- The rows that a claim returns: the header first, which describes the claim, then one row for each claimed job, in any
-- order. Sorting the ids of the jobs (header.job_ids) is cheaper than sorting all that is known about them.
--
-- The header has nulls in the columns of jobs, and jobs have nulls in the columns of the header.
select
    null as id,
    null as task_id,
    null as payload,
    null as attempts,
    null as max_attempts,
    null as job_queue_id,
    null as queue_name,
    null as priority,
    null as run_at,
    null as last_error,
    null as created_at,
    null as updated_at,
    null as key,
    null as revision,
    null as flags,
    header.*
from header
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
