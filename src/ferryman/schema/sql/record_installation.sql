-- The ledger rows of a fresh install, before anything else: their primary key is the mutex between us and the migrators
-- of Node and Rust, who begin in the same way.
insert into :schema.migrations (id, breaking)
select id, id = any(cast(:breaking as integer[])) from generate_series(1, cast(:revision as integer)) as id;
