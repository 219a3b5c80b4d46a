-- The four tables and the type of Graphile Worker's schema revision 20.
--
-- Names, column order and defaults are the contract with Node and Rust: programs select * and tools compare dumps.
-- Some names end in 1 because Graphile rewrote its tables once while the old names were still taken. PostgreSQL 18
-- keeps the names of NOT NULL constraints too; older servers read and forget them.
create type :schema.job_spec as (
    identifier text,
    payload json,
    queue_name text,
    run_at timestamptz,
    max_attempts smallint,
    job_key text,
    priority smallint,
    flags text[]
);

create table :schema._private_job_queues (
    id integer
        constraint job_queues_id_not_null not null
        generated always as identity (sequence name :schema.job_queues_id_seq),
    queue_name text constraint job_queues_queue_name_not_null1 not null,
    locked_at timestamptz,
    locked_by text,
    is_available boolean
        generated always as (locked_at is null) stored
        constraint job_queues_is_available_not_null not null,
    constraint job_queues_pkey1 primary key (id),
    constraint job_queues_queue_name_key unique (queue_name),
    constraint job_queues_queue_name_check check (length(queue_name) <= 128)
);

create table :schema._private_tasks (
    id integer
        constraint tasks_id_not_null not null
        generated always as identity (sequence name :schema.tasks_id_seq),
    identifier text constraint tasks_identifier_not_null not null,
    constraint tasks_pkey primary key (id),
    constraint tasks_identifier_key unique (identifier),
    constraint tasks_identifier_check check (length(identifier) <= 128)
);

-- No foreign keys to tasks and queues: each new job would lock its parents.
create table :schema._private_jobs (
    id bigint
        constraint jobs_id_not_null1 not null
        generated always as identity (sequence name :schema.jobs_id_seq1),
    job_queue_id integer,
    task_id integer constraint jobs_task_id_not_null not null,
    payload json default '{}' constraint jobs_payload_not_null1 not null,
    priority smallint default 0 constraint jobs_priority_not_null1 not null,
    run_at timestamptz default now() constraint jobs_run_at_not_null1 not null,
    attempts smallint default 0 constraint jobs_attempts_not_null1 not null,
    max_attempts smallint default 25 constraint jobs_max_attempts_not_null1 not null,
    last_error text,
    created_at timestamptz default now() constraint jobs_created_at_not_null1 not null,
    updated_at timestamptz default now() constraint jobs_updated_at_not_null1 not null,
    key text,
    locked_at timestamptz,
    locked_by text,
    revision integer default 0 constraint jobs_revision_not_null1 not null,
    flags jsonb,
    is_available boolean
        generated always as (locked_at is null and attempts < max_attempts) stored
        constraint jobs_is_available_not_null not null,
    constraint jobs_pkey1 primary key (id),
    constraint jobs_key_key1 unique (key),
    constraint jobs_key_check check (length(key) > 0 and length(key) <= 512),
    constraint jobs_max_attempts_check check (max_attempts >= 1)
);

create index jobs_main_index on :schema._private_jobs (priority, run_at)
    include (id, task_id, job_queue_id)
    where is_available = true;

create index jobs_no_queue_index on :schema._private_jobs (priority, run_at)
    include (id, task_id)
    where is_available = true and job_queue_id is null;

create table :schema._private_known_crontabs (
    identifier text constraint known_crontabs_identifier_not_null not null,
    known_since timestamptz constraint known_crontabs_known_since_not_null not null,
    last_execution timestamptz,
    constraint known_crontabs_pkey primary key (identifier)
);

-- Enabled without policies: only the owner, and roles that bypass row security, see any rows.
alter table :schema._private_job_queues enable row level security;
alter table :schema._private_tasks enable row level security;
alter table :schema._private_jobs enable row level security;
alter table :schema._private_known_crontabs enable row level security;
