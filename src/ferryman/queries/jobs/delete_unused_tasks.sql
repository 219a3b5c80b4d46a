-- The same as delete_unknown_tasks.sql, where nobody can register, because our extensions are not installed.
delete from :schema._private_tasks as task
where
    task.identifier <> all (cast(:kept as text[]))
    and not exists (select from :schema._private_jobs as job where job.task_id = task.id)
returning task.identifier;
