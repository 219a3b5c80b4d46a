-- What graphile_worker_rs makes of a schema at revision 22, as far as keys go, from its documentation: a job that is
-- replaced or removed while it runs is dated by the begin of the producer's transaction, and noted in a table of its own.
create table graphile_worker._private_job_retirements (
    id bigint primary key references graphile_worker._private_jobs (id) on delete cascade
);

create or replace function graphile_worker.add_jobs(
    specs graphile_worker.job_spec[], job_key_preserve_run_at boolean default false
) returns setof graphile_worker._private_jobs
language plpgsql
as $$
#variable_conflict use_column
declare
    wanted text[] := array(select distinct spec.job_key from unnest(specs) as spec where spec.job_key is not null order by 1);
    each text;
begin
    foreach each in array wanted loop
        perform pg_advisory_xact_lock(hashtext(each));
    end loop;
    insert into graphile_worker._private_tasks (identifier)
    select distinct spec.identifier from unnest(specs) as spec
    on conflict do nothing;
    insert into graphile_worker._private_job_queues (queue_name)
    select distinct spec.queue_name from unnest(specs) as spec where spec.queue_name is not null
    on conflict do nothing;
    with retired as (
        update graphile_worker._private_jobs as job
        set key = null, attempts = job.max_attempts, updated_at = now()
        where job.key = any (wanted) and not job.is_available
        returning job.id
    )
    insert into graphile_worker._private_job_retirements select id from retired on conflict do nothing;
    return query
    insert into graphile_worker._private_jobs as job
        (job_queue_id, task_id, payload, run_at, max_attempts, key, priority)
    select
        queue.id, task.id, coalesce(spec.payload, '{}'), coalesce(spec.run_at, now()), coalesce(spec.max_attempts, 25),
        spec.job_key, coalesce(spec.priority, 0)
    from
        unnest(specs) as spec
        join graphile_worker._private_tasks as task on task.identifier = spec.identifier
        left join graphile_worker._private_job_queues as queue on queue.queue_name = spec.queue_name
    on conflict (key) do update set
        payload = excluded.payload, run_at = excluded.run_at, max_attempts = excluded.max_attempts,
        revision = job.revision + 1, attempts = 0, last_error = null, updated_at = now()
    where job.locked_at is null
    returning *;
end
$$;

create or replace function graphile_worker.remove_job(job_key text) returns graphile_worker._private_jobs
language plpgsql
strict
as $$
#variable_conflict use_column
declare
    removed graphile_worker._private_jobs;
begin
    delete from graphile_worker._private_jobs
    where key = remove_job.job_key and (locked_at is null or locked_at < now() - interval '4 hours')
    returning * into removed;
    if found then
        return removed;
    end if;
    update graphile_worker._private_jobs
    set key = null, attempts = max_attempts, updated_at = now()
    where key = remove_job.job_key
    returning * into removed;
    insert into graphile_worker._private_job_retirements select removed.id where removed.id is not null
    on conflict do nothing;
    return removed;
end
$$;
