-- Add one job that has no key: insert_jobs.sql for the most common call, without the cost of unpacking a list.
--
-- Locks, and what an empty result means: see insert_jobs.sql.
with known_task as (
    select id from :schema._private_tasks where identifier operator(pg_catalog.=) cast(:identifier as pg_catalog.text)
),
new_task as (
    insert into :schema._private_tasks (identifier)
    select cast(:identifier as pg_catalog.text) where not exists (select from known_task)
    on conflict (identifier) do nothing
    returning id
),
known_queue as (
    select id from :schema._private_job_queues where queue_name operator(pg_catalog.=) cast(:queue_name as pg_catalog.text)
),
new_queue as (
    insert into :schema._private_job_queues (queue_name)
    select cast(:queue_name as pg_catalog.text)
    where cast(:queue_name as pg_catalog.text) is not null and not exists (select from known_queue)
    on conflict (queue_name) do nothing
    returning id
),
added as (
    insert into :schema._private_jobs (task_id, job_queue_id, payload, run_at, max_attempts, priority, flags)
    select
        task.id,
        queue.id,
        cast(cast(:payload as pg_catalog.text) as pg_catalog.json),
        coalesce(
            cast(:run_at as pg_catalog.timestamptz),
            pg_catalog.now() operator(pg_catalog.+) pg_catalog.make_interval(secs => cast(:delay as pg_catalog.float8)),
            pg_catalog.now()
        ),
        coalesce(cast(:max_attempts as smallint), 25),
        coalesce(cast(:priority as smallint), 0),
        (select pg_catalog.jsonb_object_agg(flag, true) from pg_catalog.unnest(cast(:flags as pg_catalog.text[])) as flag)
    from
        (select id from known_task union all select id from new_task) as task
        left join (select id from known_queue union all select id from new_queue) as queue on true
    where cast(:queue_name as pg_catalog.text) is null or queue.id is not null
    returning id
)
select
    added.id,
    pg_catalog.now(),
    case
        when cast(:notify as boolean)
            then pg_catalog.pg_notify(
                'jobs:insert', pg_catalog.json_build_object('r', pg_catalog.random(), 'count', 1)::pg_catalog.text
            )
    end
from added;
