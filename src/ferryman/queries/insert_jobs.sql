-- Add jobs that have no key, in the order given, without walking through add_jobs.
--
-- :kinds     what the jobs share: a JSON array of task, queue and schedule, each with its number
-- :payloads  a JSON array, one element per job
-- :kind_of   for each job the number of its kind, as an array literal; null when there is only one kind
-- :notify    whether to wake workers
--
-- Ids are given out, and come back, in the order of the payloads: rows are inserted sorted and returned as inserted.
--
-- Locks: ROW EXCLUSIVE on tasks, queues and jobs, as add_jobs takes them, so that cleaning up tasks and queues waits
-- for us. Missing tasks and queues are inserted in the order of their names, so that two producers never wait for each
-- other in a circle. One that another producer has added meanwhile is invisible to this statement: then no job is
-- added, the ids come back null, and the caller asks again.
with kind as (
    select *
    from json_to_recordset(cast(cast(:kinds as text) as json)) as kind (
        number int, identifier text, queue_name text, run_at timestamptz, max_attempts smallint, priority smallint,
        flags text[]
    )
),
known_task as (
    -- One probe of the index for each name, however large the table: a join might be planned as a scan of all of it.
    select task.id, task.identifier
    from (
        select
            (select id from :schema._private_tasks where identifier = wanted.identifier) as id,
            wanted.identifier
        from (select distinct identifier from kind) as wanted
    ) as task
    where task.id is not null
),
new_task as (
    insert into :schema._private_tasks (identifier)
    select distinct identifier from kind where identifier not in (select identifier from known_task) order by identifier
    on conflict (identifier) do nothing
    returning id, identifier
),
known_queue as (
    select queue.id, queue.queue_name
    from (
        select
            (select id from :schema._private_job_queues where queue_name = wanted.queue_name) as id,
            wanted.queue_name
        from (select distinct queue_name from kind where queue_name is not null) as wanted
    ) as queue
    where queue.id is not null
),
new_queue as (
    insert into :schema._private_job_queues (queue_name)
    select distinct queue_name
    from kind
    where queue_name is not null and queue_name not in (select queue_name from known_queue)
    order by queue_name
    on conflict (queue_name) do nothing
    returning id, queue_name
),
resolved as (
    select
        kind.number,
        task.id as task_id,
        queue.id as queue_id,
        coalesce(kind.run_at, now()) as run_at,
        coalesce(kind.max_attempts, 25) as max_attempts,
        coalesce(kind.priority, 0) as priority,
        (select jsonb_object_agg(flag, true) from unnest(kind.flags) as flag) as flags,
        task.id is not null and (kind.queue_name is null or queue.id is not null) as is_complete
    from kind
    left join (select * from known_task union all select * from new_task) as task using (identifier)
    left join (select * from known_queue union all select * from new_queue) as queue using (queue_name)
),
added as (
    insert into :schema._private_jobs (task_id, job_queue_id, payload, run_at, max_attempts, priority, flags)
    select
        resolved.task_id, resolved.queue_id, item.payload, resolved.run_at, resolved.max_attempts, resolved.priority,
        resolved.flags
    from
        rows from (
            json_array_elements(cast(cast(:payloads as text) as json)),
            unnest(cast(cast(:kind_of as text) as int[]))
        ) with ordinality as item (payload, kind_number, place)
        join resolved on resolved.number = coalesce(item.kind_number, 0)
    where (select bool_and(is_complete) from resolved)
    order by item.place
    returning id
),
result as (
    select array_agg(id) as ids from added
)
select
    result.ids,
    now(),
    case
        when cast(:notify as boolean) and result.ids is not null
            then pg_notify('jobs:insert', json_build_object('r', random(), 'count', cardinality(result.ids))::text)
    end
from result;
