-- Give every task that jobs refer to, and that has no row, a row again, with the old number and a made-up name: its jobs
-- become visible, and can be moved to the task that they were for. No worker runs them before that. Runs under lock_tasks.sql.
-- Locks nothing more; jobs are not changed.
with made as (
    insert into :schema._private_tasks (id, identifier)
    overriding system value
    select lost.id, 'ferryman-lost-task-' || lost.id
    from (
        select distinct job.task_id as id
        from :schema._private_jobs as job
        where not exists (select from :schema._private_tasks as task where task.id = job.task_id)
    ) as lost
    order by lost.id
    on conflict do nothing
    returning id, identifier
)
select
    made.names,
    case when made.newest > sequence.last_value then setval(cast(sequence.tableoid as regclass), made.newest) end
from
    (select array_agg(made.identifier order by made.id) as names, max(made.id) as newest from made) as made
    cross join :schema.tasks_id_seq as sequence;
