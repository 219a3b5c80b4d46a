-- One ledger row of an upgrade, before its changes: the primary key keeps two migrators from doing the same.
insert into :schema.migrations (id, breaking) values (cast(:id as integer), cast(:is_breaking as boolean));
