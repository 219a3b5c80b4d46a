-- The ledger of Ferryman's extensions. We never write to Graphile's own table of migrations.
--
-- made: the objects that this extension created. The Rust system uses some of their names and may have created them
-- before; only the objects that we made are ever dropped.
create table :schema._ferryman_migrations (
    id integer primary key,
    name text not null,
    made text[] not null default '{}',
    ts timestamptz not null default now()
);
