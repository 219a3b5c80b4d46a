-- The ids of registered workers, dead ones that nobody has swept included. Runs under lock_workers.sql.
select worker.id from :schema._private_workers as worker order by worker.id;
