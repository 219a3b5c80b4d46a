-- The states of workers: one row for each heartbeat, written by parts/pulse.sql.
--
-- slots, running              how many jobs the worker could run at once, and how many it ran
-- done, failed                attempts that succeeded and failed since the worker started
-- rss_bytes                   the memory of its process; null if that cannot be read
-- loop_lag_seconds            how long its event loop took to answer; null before the first answer
--
-- The indexes serve the history of one worker and the removal of old rows.
create table :schema._ferryman_worker_states (
    id bigint generated always as identity primary key,
    worker_id text not null,
    taken_at timestamptz not null default now(),
    slots integer not null,
    running integer not null,
    done bigint not null,
    failed bigint not null,
    rss_bytes bigint,
    loop_lag_seconds double precision
);

create index _ferryman_worker_states_worker_id_taken_at_idx on :schema._ferryman_worker_states (worker_id, taken_at);
create index _ferryman_worker_states_taken_at_idx on :schema._ferryman_worker_states (taken_at);
