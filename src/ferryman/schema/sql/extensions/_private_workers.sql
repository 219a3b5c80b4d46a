-- The registered workers. The Rust system makes this table with the same columns.
create table :schema._private_workers (
    id text primary key,
    last_heartbeat_at timestamptz not null,
    started_at timestamptz not null default now(),
    metadata jsonb
);

create index _private_workers_last_heartbeat_at_idx on :schema._private_workers (last_heartbeat_at);
