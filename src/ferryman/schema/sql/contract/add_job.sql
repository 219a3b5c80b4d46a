-- add_job: store one job and return its row, never an empty one.
--
-- One statement stores a job without a key, or with unsafe_dedupe. add_jobs does everything else about keys.
--
-- Locks: the tables of tasks and queues, as any writer does, even if no row is written there, so that a clean-up can
-- block producers with a table lock; with unsafe_dedupe, the row that has the key.
--
-- The label of the block says that this body is Ferryman's, and which edition.
create or replace function :schema.add_job(
    identifier text,
    payload json default null,
    queue_name text default null,
    run_at timestamptz default null,
    max_attempts integer default null,
    job_key text default null,
    priority integer default null,
    flags text[] default null,
    job_key_mode text default 'replace'
) returns :schema._private_jobs
language plpgsql
as $ferryman$
#variable_conflict use_column
<<ferryman_2>>
declare
    stored :schema._private_jobs;
begin
    if
        add_job.job_key is not null
        and coalesce(add_job.job_key_mode, '') operator(pg_catalog.<>) 'unsafe_dedupe'
    then
        if
            add_job.job_key_mode operator(pg_catalog.<>) 'replace'
            and add_job.job_key_mode operator(pg_catalog.<>) 'preserve_run_at'
        then
            raise exception using
                errcode = 'GWBKM',
                message = 'Invalid job_key_mode value, expected ''replace'', ''preserve_run_at'' or ''unsafe_dedupe''.';
        end if;
        select * into stored
        from :schema.add_jobs(
            array[cast(row(
                add_job.identifier,
                add_job.payload,
                add_job.queue_name,
                add_job.run_at,
                cast(add_job.max_attempts as smallint),
                add_job.job_key,
                cast(add_job.priority as smallint),
                add_job.flags
            ) as :schema.job_spec)],
            add_job.job_key_mode operator(pg_catalog.=) 'preserve_run_at'
        );
        return stored;
    end if;

    -- Another transaction may be adding the same task or queue. This statement waits for it but cannot see the new id,
    -- which only the next statement sees.
    for attempt in 1..10 loop
        with known_task as (
            select id from :schema._private_tasks where identifier operator(pg_catalog.=) add_job.identifier
        ),
        new_task as (
            insert into :schema._private_tasks (identifier)
            select add_job.identifier where not exists (select from known_task)
            on conflict do nothing
            returning id
        ),
        known_queue as (
            select id from :schema._private_job_queues where queue_name operator(pg_catalog.=) add_job.queue_name
        ),
        new_queue as (
            insert into :schema._private_job_queues (queue_name)
            select add_job.queue_name
            where add_job.queue_name is not null and not exists (select from known_queue)
            on conflict do nothing
            returning id
        )
        insert into :schema._private_jobs as existing (
            task_id, job_queue_id, payload, run_at, max_attempts, key, priority, flags
        )
        select
            task.id,
            queue.id,
            coalesce(add_job.payload, '{}'),
            coalesce(add_job.run_at, pg_catalog.now()),
            coalesce(cast(add_job.max_attempts as smallint), 25),
            add_job.job_key,
            coalesce(cast(add_job.priority as smallint), 0),
            (select pg_catalog.jsonb_object_agg(flag, true) from pg_catalog.unnest(add_job.flags) as flag)
        from
            (select id from known_task union all select id from new_task) as task
            left join (select id from known_queue union all select id from new_queue) as queue on true
        where add_job.queue_name is null or queue.id is not null
        on conflict (key) do update set revision = existing.revision operator(pg_catalog.+) 1, updated_at = pg_catalog.now()
        returning * into stored;
        exit when found;
    end loop;

    if stored.id is null then
        raise exception using
            errcode = '40001',
            message = 'the task or queue of a new job kept vanishing while it was added; try again';
    end if;
    if stored.revision operator(pg_catalog.=) 0 then
        perform pg_catalog.pg_notify('jobs:insert', pg_catalog.concat('{"r":', pg_catalog.random(), ',"count":1}'));
    end if;
    return stored;
end
$ferryman$;
