-- Delete tasks that no job refers to, and that neither the caller, a registered worker nor a schedule names.
--
-- :kept   the tasks that the caller names
--
-- Runs under lock_tasks.sql, so that a worker that has registered by then is seen.
delete from :schema._private_tasks as task
where
    task.identifier <> all (cast(:kept as text[]))
    and not exists (select from :schema._private_jobs as job where job.task_id = task.id)
    and task.identifier not in (
        -- include: parts/known_tasks
    )
returning task.identifier;
