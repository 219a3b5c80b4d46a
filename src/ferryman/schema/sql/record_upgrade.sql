-- Record one revision of an upgrade, before its changes: the primary key keeps two migrators from making them twice.
insert into :schema.migrations (id, breaking) values (cast(:id as integer), cast(:is_breaking as boolean));
