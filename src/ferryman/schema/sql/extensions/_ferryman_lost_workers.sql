-- What is kept of workers that were found dead. An id that is swept once more has its row brought up to date.
--
-- started_at, last_heartbeat_at, metadata   as the worker had registered them; null if it was not registered
-- recovered_jobs                            how many jobs were taken from it, all sweeps together
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
