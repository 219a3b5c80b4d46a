-- Delete tasks as delete_unknown_tasks.sql does, in a schema without Ferryman's extensions, where no worker can register.
delete from :schema._private_tasks as task
where
    task.identifier <> all (cast(:kept as text[]))
    and not exists (select from :schema._private_jobs as job where job.task_id = task.id)
returning task.identifier;
