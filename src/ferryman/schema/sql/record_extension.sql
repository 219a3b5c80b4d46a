-- The ledger row of an extension of ours, with the objects that it made: none of them where others made theirs, or where ours
-- gave way to theirs and may be made again.
insert into :schema._ferryman_migrations as known (id, name, made)
values (cast(:id as integer), cast(:extension as text), cast(:made as text[]))
on conflict (id) do update set made = excluded.made;
