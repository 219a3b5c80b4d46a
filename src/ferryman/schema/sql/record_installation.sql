-- Record all revisions of a fresh install. This comes first: the primary key is the mutex between Ferryman and the
-- migrators of Node and Rust, which begin in the same way.
insert into :schema.migrations (id, breaking)
select id, id = any(cast(:breaking as integer[])) from generate_series(1, cast(:revision as integer)) as id;
