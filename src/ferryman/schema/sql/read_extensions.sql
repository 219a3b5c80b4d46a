-- Read the ledger of Ferryman's extensions. Locks nothing.
select id, name, made from :schema._ferryman_migrations order by id;
