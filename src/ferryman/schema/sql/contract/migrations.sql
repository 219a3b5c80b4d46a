-- Graphile's ledger, made only if it is absent: an operator may have made it beforehand for a role with few rights.
create table :schema.migrations (
    id integer constraint migrations_pkey primary key,
    ts timestamptz not null default now(),
    breaking boolean not null default false
);
