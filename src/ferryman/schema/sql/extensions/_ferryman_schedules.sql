-- Crontabs kept in the database. Clients add, change, pause and remove them while workers run.
--
-- timing         the five fields of a crontab, such as 0 8 * * *
-- fill_seconds   how far back missed minutes still fire, after a time without workers; null for not at all
-- active_since   when it was added or resumed, or its timing was changed; minutes before this never fire
-- revision       grows with each change, so that a worker never acts on what it read before
--
-- The minute at which a crontab last fired is in _private_known_crontabs, where Node's workers keep it too.
create table :schema._ferryman_schedules (
    identifier text primary key,
    timing text not null,
    time_zone text not null default 'UTC',
    task_identifier text not null,
    payload json,
    fill_seconds bigint check (fill_seconds >= 0),
    queue_name text,
    max_attempts smallint check (max_attempts >= 1),
    priority smallint,
    job_key text,
    job_key_mode text check (job_key_mode in ('replace', 'preserve_run_at', 'unsafe_dedupe')),
    is_paused boolean not null default false,
    active_since timestamptz not null default now(),
    revision bigint not null default 1,
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now()
);
