-- Workers that were declared dead. A worker that is swept again has its row updated.
--
-- started_at, last_heartbeat_at, metadata   as the worker had registered them; null if it was not registered
-- recovered_jobs                            the jobs that were recovered from it, in all sweeps together
create table :schema._ferryman_lost_workers (
    worker_id text primary key,
    started_at timestamptz,
    last_heartbeat_at timestamptz,
    noticed_at timestamptz not null default now(),
    reason text not null,
    metadata jsonb,
    recovered_jobs integer not null default 0
);

create index _ferryman_lost_workers_noticed_at_idx on :schema._ferryman_lost_workers (noticed_at);
