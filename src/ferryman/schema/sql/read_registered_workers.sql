-- Return the ids of registered workers, dead ones that no sweep has removed included. Runs under lock_workers.sql.
select worker.id from :schema._private_workers as worker order by worker.id;
