-- Wait until no other session of Ferryman changes this schema, and keep others from it until the transaction ends.
-- Locks: one advisory lock, named after the schema.
select pg_advisory_xact_lock(hashtextextended('ferryman schema ' || cast(:name as text), 0));
