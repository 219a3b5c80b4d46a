-- Which of our own extensions are installed. Graphile's own table of migrations is not ours to write in.
--
-- made: the objects that this extension created, because some names are shared with the Rust system and may have been
-- there before; only what we made is ever dropped.
create table :schema._ferryman_migrations (
    id integer primary key,
    name text not null,
    made text[] not null default '{}',
    ts timestamptz not null default now()
);
