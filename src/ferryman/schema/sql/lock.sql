-- Locks: the name of the schema, against other changes by Ferryman. The lock ends with the transaction, however that
-- ends.
select pg_advisory_xact_lock(hashtextextended('ferryman schema ' || cast(:name as text), 0));
