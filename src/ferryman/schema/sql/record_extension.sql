-- Record an extension in the ledger, with the objects that it made: none if they existed already, or if ours gave way
-- to Rust's. A later migration may make them again.
insert into :schema._ferryman_migrations as known (id, name, made)
values (cast(:id as integer), cast(:extension as text), cast(:made as text[]))
on conflict (id) do update set made = excluded.made;
