-- add_jobs: store many jobs at once and give their rows back, one for each spec, in the order of the specs.
--
-- A key that is taken is never lost: if its job waits, that job is overwritten; if its job is running or out of
-- attempts, that job is retired (it loses its key and all further attempts) and a new one is stored. Specs of one call
-- that share a key are applied one after the other.
--
-- Locks: keys are visited in one order, bytewise, so that two producers with the same keys queue up instead of blocking
-- each other. The upsert waits for a claim of the row in flight and then looks at what the claim left behind. It finds
-- the row by the unique index, whatever the planner believes about the size of the table. The tables of tasks and queues
-- are locked as any writer does, even when nothing new is written there.
create or replace function :schema.add_jobs(
    specs :schema.job_spec[],
    job_key_preserve_run_at boolean default false
) returns setof :schema._private_jobs
language plpgsql
as $add_jobs$
#variable_conflict use_column
<<ferryman_1>>
declare
    wanted record;
    stored :schema._private_jobs;
    results :schema._private_jobs[];
begin
    if coalesce(cardinality(add_jobs.specs), 0) = 0 then
        return;
    end if;

    -- Only what is missing: an insert that meets a conflict uses up a number of a sequence that ends at 2^31.
    insert into :schema._private_tasks (identifier)
    select distinct spec.identifier
    from unnest(add_jobs.specs) as spec
    where not exists (select from :schema._private_tasks as task where task.identifier = spec.identifier)
    order by 1
    on conflict do nothing;

    insert into :schema._private_job_queues (queue_name)
    select distinct spec.queue_name
    from unnest(add_jobs.specs) as spec
    where
        spec.queue_name is not null
        and not exists (select from :schema._private_job_queues as queue where queue.queue_name = spec.queue_name)
    order by 1
    on conflict do nothing;

    perform pg_notify('jobs:insert', '{"r":' || random() || ',"count":' || cardinality(add_jobs.specs) || '}');

    if not exists (select from unnest(add_jobs.specs) as spec where spec.job_key is not null) then
        return query
        insert into :schema._private_jobs as job (
            task_id, job_queue_id, payload, run_at, max_attempts, priority, flags
        )
        select
            task.id,
            queue.id,
            coalesce(spec.payload, '{}'),
            coalesce(spec.run_at, now()),
            coalesce(spec.max_attempts, 25),
            coalesce(spec.priority, 0),
            (select jsonb_object_agg(flag, true) from unnest(spec.flags) as flag)
        from
            unnest(add_jobs.specs) with ordinality as spec (
                identifier, payload, queue_name, run_at, max_attempts, job_key, priority, flags, place
            )
            -- A task that was deleted just now fails the call by its NOT NULL, where an inner join would lose the job.
            left join :schema._private_tasks as task on task.identifier = spec.identifier
            left join :schema._private_job_queues as queue on queue.queue_name = spec.queue_name
        order by spec.place
        returning job.*;
        return;
    end if;

    results := array_fill(cast(null as :schema._private_jobs), array[cardinality(add_jobs.specs)]);
    for wanted in
        select
            task.id as task_id,
            queue.id as job_queue_id,
            coalesce(spec.payload, '{}') as payload,
            coalesce(spec.run_at, now()) as run_at,
            coalesce(spec.max_attempts, 25) as max_attempts,
            spec.job_key as key,
            coalesce(spec.priority, 0) as priority,
            (select jsonb_object_agg(flag, true) from unnest(spec.flags) as flag) as flags,
            spec.place
        from
            unnest(add_jobs.specs) with ordinality as spec (
                identifier, payload, queue_name, run_at, max_attempts, job_key, priority, flags, place
            )
            left join :schema._private_tasks as task on task.identifier = spec.identifier
            left join :schema._private_job_queues as queue on queue.queue_name = spec.queue_name
        order by spec.job_key collate "C" nulls first, spec.place
    loop
        -- Twice is enough: once we have retired the row, nobody else gets the key before we end.
        for attempt in 1..2 loop
            insert into :schema._private_jobs as existing (
                task_id, job_queue_id, payload, run_at, max_attempts, key, priority, flags
            )
            values (
                wanted.task_id, wanted.job_queue_id, wanted.payload, wanted.run_at, wanted.max_attempts, wanted.key,
                wanted.priority, wanted.flags
            )
            on conflict (key) do update set
                task_id = excluded.task_id,
                job_queue_id = excluded.job_queue_id,
                -- Two arrays become one, joined as text: a detour over jsonb would fail on \u0000 for ever after.
                payload = case
                    when json_typeof(existing.payload) <> 'array' or json_typeof(excluded.payload) <> 'array'
                        then excluded.payload
                    when json_array_length(existing.payload) = 0
                        then excluded.payload
                    when json_array_length(excluded.payload) = 0
                        then existing.payload
                    else cast(
                        left(rtrim(cast(existing.payload as text), E' \t\n\r'), -1)
                        || ','
                        || substr(ltrim(cast(excluded.payload as text), E' \t\n\r'), 2)
                        as json
                    )
                end,
                run_at = case
                    when add_jobs.job_key_preserve_run_at and existing.attempts = 0 then existing.run_at
                    else excluded.run_at
                end,
                max_attempts = excluded.max_attempts,
                priority = excluded.priority,
                flags = excluded.flags,
                revision = existing.revision + 1,
                attempts = 0,
                last_error = null,
                updated_at = now()
            where existing.is_available
            returning * into stored;
            exit when found;

            -- The row is ours to change now, and it is running or out of attempts. An insert that is bound to conflict
            -- finds it by the unique index. By the clock, not by the time that this transaction began: a job that was
            -- retired while it ran is told by having changed after it was locked.
            insert into :schema._private_jobs as existing (task_id, key)
            values (wanted.task_id, wanted.key)
            on conflict (key) do update set
                key = null,
                attempts = existing.max_attempts,
                updated_at = clock_timestamp();
        end loop;
        if stored.id is null then
            raise exception using errcode = '40001', message = 'a job with a key was not stored; try again';
        end if;
        results[wanted.place] := stored;
    end loop;
    return query select result.* from unnest(results) as result;
end
$add_jobs$;
