-- Add one job that has no key: insert_jobs.sql for the most common call, without the cost of unpacking a list.
--
-- Locks, and what an empty result means: see insert_jobs.sql.
with known_task as (
    select id from :schema._private_tasks where identifier = cast(:identifier as text)
),
new_task as (
    insert into :schema._private_tasks (identifier)
    select cast(:identifier as text) where not exists (select from known_task)
    on conflict (identifier) do nothing
    returning id
),
known_queue as (
    select id from :schema._private_job_queues where queue_name = cast(:queue_name as text)
),
new_queue as (
    insert into :schema._private_job_queues (queue_name)
    select cast(:queue_name as text)
    where cast(:queue_name as text) is not null and not exists (select from known_queue)
    on conflict (queue_name) do nothing
    returning id
),
added as (
    insert into :schema._private_jobs (task_id, job_queue_id, payload, run_at, max_attempts, priority, flags)
    select
        task.id,
        queue.id,
        cast(cast(:payload as text) as json),
        coalesce(cast(:run_at as timestamptz), now()),
        coalesce(cast(:max_attempts as smallint), 25),
        coalesce(cast(:priority as smallint), 0),
        (select jsonb_object_agg(flag, true) from unnest(cast(:flags as text[])) as flag)
    from
        (select id from known_task union all select id from new_task) as task
        left join (select id from known_queue union all select id from new_queue) as queue on true
    where cast(:queue_name as text) is null or queue.id is not null
    returning id
)
select
    added.id,
    now(),
    case
        when cast(:notify as boolean)
            then pg_notify('jobs:insert', json_build_object('r', random(), 'count', 1)::text)
    end
from added;
