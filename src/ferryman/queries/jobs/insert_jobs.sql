-- Add jobs that have no key, in the order given, without the cost of add_jobs.
--
-- :kinds      what the jobs share: a JSON array of task, queue and schedule, each with its number
-- :payloads   a JSON array, one element per job
-- :kind_of    an array literal: for each job the number of its kind; null if there is only one kind
-- :notify     whether to wake workers
--
-- Ids are given out and returned in the order of the payloads: rows are inserted sorted and returned as inserted.
--
-- Locks: ROW EXCLUSIVE on tasks, queues and jobs, as add_jobs takes them, so that a cleanup of tasks and queues waits for this
-- statement. Missing tasks and queues are inserted in the order of their names, so that two producers never wait for each
-- other in a circle. One that another producer has added meanwhile is invisible to this statement: then no job is added, the
-- ids come back null, and the caller asks again.
with kind as (
    select *
    from pg_catalog.json_to_recordset(cast(cast(:kinds as pg_catalog.text) as pg_catalog.json)) as kind (
        number int, identifier pg_catalog.text, queue_name pg_catalog.text, run_at pg_catalog.timestamptz,
        delay pg_catalog.float8, max_attempts smallint, priority smallint, flags pg_catalog.text[]
    )
),
known_task as (
    -- One probe of the index for each name, however large the table: a join might be planned as a scan of all of it.
    select task.id, task.identifier
    from (
        select
            (select id from :schema._private_tasks where identifier operator(pg_catalog.=) wanted.identifier) as id,
            wanted.identifier
        from (select distinct identifier from kind) as wanted
    ) as task
    where task.id is not null
),
new_task as (
    insert into :schema._private_tasks (identifier)
    select distinct identifier
    from kind
    where not identifier operator(pg_catalog.=) any (select identifier from known_task)
    order by identifier
    on conflict (identifier) do nothing
    returning id, identifier
),
known_queue as (
    select queue.id, queue.queue_name
    from (
        select
            (
                select id from :schema._private_job_queues where queue_name operator(pg_catalog.=) wanted.queue_name
            ) as id,
            wanted.queue_name
        from (select distinct queue_name from kind where queue_name is not null) as wanted
    ) as queue
    where queue.id is not null
),
new_queue as (
    insert into :schema._private_job_queues (queue_name)
    select distinct queue_name
    from kind
    where queue_name is not null and not queue_name operator(pg_catalog.=) any (select queue_name from known_queue)
    order by queue_name
    on conflict (queue_name) do nothing
    returning id, queue_name
),
resolved as (
    select
        kind.number,
        task.id as task_id,
        queue.id as queue_id,
        coalesce(
            kind.run_at,
            pg_catalog.now() operator(pg_catalog.+) pg_catalog.make_interval(secs => kind.delay),
            pg_catalog.now()
        ) as run_at,
        coalesce(kind.max_attempts, 25) as max_attempts,
        coalesce(kind.priority, 0) as priority,
        (select pg_catalog.jsonb_object_agg(flag, true) from pg_catalog.unnest(kind.flags) as flag) as flags,
        task.id is not null and (kind.queue_name is null or queue.id is not null) as is_complete
    from kind
    left join (select * from known_task union all select * from new_task) as task
        on task.identifier operator(pg_catalog.=) kind.identifier
    left join (select * from known_queue union all select * from new_queue) as queue
        on queue.queue_name operator(pg_catalog.=) kind.queue_name
),
added as (
    insert into :schema._private_jobs (task_id, job_queue_id, payload, run_at, max_attempts, priority, flags)
    select
        resolved.task_id, resolved.queue_id, item.payload, resolved.run_at, resolved.max_attempts, resolved.priority,
        resolved.flags
    from
        rows from (
            pg_catalog.json_array_elements(cast(cast(:payloads as pg_catalog.text) as pg_catalog.json)),
            pg_catalog.unnest(cast(cast(:kind_of as pg_catalog.text) as int[]))
        ) with ordinality as item (payload, kind_number, place)
        join resolved on resolved.number operator(pg_catalog.=) coalesce(item.kind_number, 0)
    where (select pg_catalog.bool_and(is_complete) from resolved)
    order by item.place
    returning id
),
result as (
    select pg_catalog.array_agg(id) as ids from added
)
select
    result.ids,
    pg_catalog.now(),
    case
        when cast(:notify as boolean) and result.ids is not null
            then pg_catalog.pg_notify(
                'jobs:insert',
                pg_catalog.json_build_object(
                    'r', pg_catalog.random(), 'count', pg_catalog.cardinality(result.ids)
                )::pg_catalog.text
            )
    end
from result;
