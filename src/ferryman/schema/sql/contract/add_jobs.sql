-- add_jobs: store many jobs at once and return their rows, one for each spec, in the order of the specs.
--
-- A job with a used key is never lost. If the job that has the key waits, it is overwritten. If that job is running or
-- out of attempts, it is retired (it loses its key and all further attempts) and a new job is stored. Specs of one call
-- with the same key are applied one after the other.
--
-- Locks: keys are visited in one order, bytewise, so that two producers with the same keys wait in line and never for
-- each other. The upsert waits for a claim of the row that is under way, and then sees what the claim has written. It
-- finds the row by the unique index, at any size that the planner believes the table to have. The tables of tasks and
-- queues are locked as any writer does, even if no row is written there.
--
-- The specs are read through a subselect, so that the planner cannot count them: it would plan every call anew.
create or replace function :schema.add_jobs(
    specs :schema.job_spec[],
    job_key_preserve_run_at boolean default false
) returns setof :schema._private_jobs
language plpgsql
as $ferryman$
#variable_conflict use_column
<<ferryman_2>>
declare
    keyed integer;
    missing integer;
    wanted :schema.job_spec[];
    places integer[];
    nth integer;
    stored :schema._private_jobs;
    results :schema._private_jobs[];
begin
    if coalesce(pg_catalog.cardinality(add_jobs.specs), 0) operator(pg_catalog.=) 0 then
        return;
    end if;

    -- Only missing rows: an insert that meets a conflict uses a number of a sequence that ends at 2^31.
    insert into :schema._private_tasks (identifier)
    select distinct spec.identifier
    from pg_catalog.unnest((select add_jobs.specs)) as spec
    where not exists (select from :schema._private_tasks as task where task.identifier operator(pg_catalog.=) spec.identifier)
    order by 1
    on conflict do nothing;

    insert into :schema._private_job_queues (queue_name)
    select distinct spec.queue_name
    from pg_catalog.unnest((select add_jobs.specs)) as spec
    where
        spec.queue_name is not null
        and not exists (select from :schema._private_job_queues as queue where queue.queue_name operator(pg_catalog.=) spec.queue_name)
    order by 1
    on conflict do nothing;

    select pg_catalog.count(spec.job_key) into keyed from pg_catalog.unnest((select add_jobs.specs)) as spec;

    if keyed operator(pg_catalog.=) 0 then
        return query
        insert into :schema._private_jobs as job (
            task_id, job_queue_id, payload, run_at, max_attempts, priority, flags
        )
        select
            task.id,
            queue.id,
            coalesce(spec.payload, '{}'),
            coalesce(spec.run_at, pg_catalog.now()),
            coalesce(spec.max_attempts, 25),
            coalesce(spec.priority, 0),
            (select pg_catalog.jsonb_object_agg(flag, true) from pg_catalog.unnest(spec.flags) as flag)
        from
            pg_catalog.unnest((select add_jobs.specs)) with ordinality as spec (
                identifier, payload, queue_name, run_at, max_attempts, job_key, priority, flags, place
            )
            -- If a task was deleted just now, the NOT NULL constraint fails the call. An inner join would lose the job.
            left join :schema._private_tasks as task on task.identifier operator(pg_catalog.=) spec.identifier
            left join :schema._private_job_queues as queue on queue.queue_name operator(pg_catalog.=) spec.queue_name
        order by spec.place
        returning job.*;
        perform pg_catalog.pg_notify(
            'jobs:insert',
            pg_catalog.concat('{"r":', pg_catalog.random(), ',"count":', pg_catalog.cardinality(add_jobs.specs), '}')
        );
        return;
    end if;

    perform pg_catalog.pg_notify(
        'jobs:insert', pg_catalog.concat('{"r":', pg_catalog.random(), ',"count":', keyed, '}')
    );
    results := pg_catalog.array_fill(cast(null as :schema._private_jobs), array[pg_catalog.cardinality(add_jobs.specs)]);

    -- Each turn takes the first spec of each key that is not stored yet. Nearly always there is one turn. Another
    -- follows for keys that occur again, and for keys whose job was retired: those stay ours until the transaction ends.
    missing := keyed;
    for turn in 1..2 operator(pg_catalog.*) keyed loop
        select pg_catalog.array_agg(first.spec order by (first.spec).job_key collate pg_catalog."C"),
            pg_catalog.array_agg(first.place order by (first.spec).job_key collate pg_catalog."C")
        into wanted, places
        from (
            select distinct on ((listed.spec).job_key collate pg_catalog."C") listed.spec, listed.place
            from (
                select
                    pg_catalog.unnest((select add_jobs.specs)) as spec,
                    pg_catalog.generate_series(1, (select pg_catalog.cardinality(add_jobs.specs))) as place
            ) as listed
            where (listed.spec).job_key is not null and (results[listed.place]).id is null
            order by (listed.spec).job_key collate pg_catalog."C", listed.place
        ) as first;

        nth := 0;
        for stored in
            insert into :schema._private_jobs as existing (
                task_id, job_queue_id, payload, run_at, max_attempts, key, priority, flags
            )
            select
                task.id,
                queue.id,
                coalesce(spec.payload, '{}'),
                coalesce(spec.run_at, pg_catalog.now()),
                coalesce(spec.max_attempts, 25),
                spec.job_key,
                coalesce(spec.priority, 0),
                (select pg_catalog.jsonb_object_agg(flag, true) from pg_catalog.unnest(spec.flags) as flag)
            from
                pg_catalog.unnest((select wanted)) with ordinality as spec (
                    identifier, payload, queue_name, run_at, max_attempts, job_key, priority, flags, place
                )
                left join :schema._private_tasks as task on task.identifier operator(pg_catalog.=) spec.identifier
                left join :schema._private_job_queues as queue on queue.queue_name operator(pg_catalog.=) spec.queue_name
            order by spec.place
            on conflict (key) do update set
                (
                    task_id, job_queue_id, payload, run_at, max_attempts, key, priority, flags,
                    attempts, last_error, revision, updated_at
                ) = (
                    -- It waits: overwrite it.
                    select
                        excluded.task_id,
                        excluded.job_queue_id,
                        -- Two arrays are joined as text: jsonb would reject \u0000.
                        case
                            when
                                pg_catalog.json_typeof(existing.payload) operator(pg_catalog.<>) 'array'
                                or pg_catalog.json_typeof(excluded.payload) operator(pg_catalog.<>) 'array'
                                or pg_catalog.json_array_length(existing.payload) operator(pg_catalog.=) 0
                                then excluded.payload
                            when pg_catalog.json_array_length(excluded.payload) operator(pg_catalog.=) 0
                                then existing.payload
                            else cast(
                                pg_catalog.left(pg_catalog.rtrim(cast(existing.payload as pg_catalog.text), E' \t\n\r'), -1)
                                operator(pg_catalog.||) ','
                                operator(pg_catalog.||) pg_catalog.substr(pg_catalog.ltrim(cast(excluded.payload as pg_catalog.text), E' \t\n\r'), 2)
                                as pg_catalog.json
                            )
                        end,
                        case
                            when add_jobs.job_key_preserve_run_at and existing.attempts operator(pg_catalog.=) 0 then existing.run_at
                            else excluded.run_at
                        end,
                        excluded.max_attempts,
                        existing.key,
                        excluded.priority,
                        excluded.flags,
                        0,
                        null,
                        existing.revision operator(pg_catalog.+) 1,
                        pg_catalog.now()
                    where existing.is_available
                    union all
                    -- It is running or out of attempts: retire it. It is dated by the clock and not by the start of this
                    -- transaction: a job that was retired while it ran is recognised by a change after its lock.
                    select
                        existing.task_id,
                        existing.job_queue_id,
                        existing.payload,
                        existing.run_at,
                        existing.max_attempts,
                        null,
                        existing.priority,
                        existing.flags,
                        existing.max_attempts,
                        existing.last_error,
                        existing.revision,
                        pg_catalog.clock_timestamp()
                    where not existing.is_available
                )
            returning *
        loop
            -- One row for each spec of this turn, in their order. A retired job is the one without a key.
            nth := nth operator(pg_catalog.+) 1;
            if stored.key is not null then
                results[places[nth]] := stored;
                missing := missing operator(pg_catalog.-) 1;
            end if;
        end loop;
        exit when missing operator(pg_catalog.=) 0;
    end loop;

    if missing operator(pg_catalog.>) 0 then
        raise exception using errcode = '40001', message = 'a job with a key could not be stored; try again';
    end if;

    -- One more call stores the specs without a key. Its rows fill the remaining places of the result.
    if keyed operator(pg_catalog.<) pg_catalog.cardinality(results) then
        nth := 0;
        for stored in
            select *
            from :schema.add_jobs(
                array(select spec from pg_catalog.unnest((select add_jobs.specs)) as spec where spec.job_key is null)
            )
        loop
            nth := nth operator(pg_catalog.+) 1;
            while (results[nth]).id is not null loop
                nth := nth operator(pg_catalog.+) 1;
            end loop;
            results[nth] := stored;
        end loop;
    end if;

    return query select result.* from pg_catalog.unnest(results) as result;
end
$ferryman$;
