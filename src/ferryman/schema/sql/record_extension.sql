-- The ledger row of an extension of ours, with the objects that it made.
insert into :schema._ferryman_migrations (id, name, made)
values (cast(:id as integer), cast(:extension as text), cast(:made as text[]));
