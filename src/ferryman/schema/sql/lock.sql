-- One Ferryman at a time changes a schema of this name. The lock ends with the transaction, however that ends.
select pg_advisory_xact_lock(hashtextextended('ferryman schema ' || cast(:name as text), 0));
