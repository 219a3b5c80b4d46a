-- Recover jobs from dead workers as decided, free the named queues that they held, and record what was done.
--
-- :recovered_by   the worker that sweeps
-- :decisions      a JSON array of
--     id, worker_id, token   the claim; a job that was settled or claimed again meanwhile is left alone
--     effect                 'requeue': the attempt is given back, and the job waits for `delay`
--                            'return': the attempt is given back, as if the job had never been claimed
--                            'retry': the attempt is used, and the job waits for `delay` (null: Graphile's own)
--                            'fail': no attempt is left
--                            'reschedule': `run_at`, and `attempts` (null: the attempt is given back)
--     delay                  seconds
--     error                  null keeps the last one
--     started, decision, reason   for the record; see _ferryman_crashes.sql
--     payload                what the next attempt gets, as JSON text; null leaves the payload as it is
--     suspicion              what the job's flags say afterwards: 'none', or 'crashed' and perhaps more, 'suspect' or
--                            'alone'; null leaves them as they are; see ferryman/recovery/crashes.py
--
-- A superseded job is only unlocked: it must not run again beside its successor. See parts/is_superseded.sql.
-- Locks: the rows of these jobs and queues, without waiting. A job whose row, or whose queue's row, another session has locked
-- is left for a later sweep. Locked rows are changed by their id and fence; see complete_claims.sql.
-- A queue is freed only under the token of the job. Under a later one, the same worker has claimed it again. Under an
-- earlier one, its lock was not renewed with that of the job, or belongs to another claim: forget_dead_workers.sql, which
-- ends a sweep, frees it when the worker holds no job of it any more.
with decided as (
    select
        item.*,
        case item.token  -- as read_crash_facts.sql writes it
            when 9223372036854775807 then timestamptz 'infinity'
            when -9223372036854775808 then timestamptz '-infinity'
            else timestamptz 'epoch' + item.token * interval '1 microsecond'
        end as locked_at
    from json_to_recordset(cast(cast(:decisions as text) as json)) as item (
        id bigint, worker_id text, token bigint, effect text, delay float8, run_at timestamptz, attempts int,
        error text, started boolean, decision text, reason text, payload text, suspicion text
    )
),
met as (
    select decided.*, job.*
    from
        decided
        cross join lateral (
            select
                job.job_queue_id,
                job.attempts as attempt,
                job.attempts >= job.max_attempts as is_last,
                (
                    select task.identifier from :schema._private_tasks as task where task.id = job.task_id
                ) as task_identifier,
                -- include: parts/is_superseded
                as is_superseded
            from :schema._private_jobs as job
            where job.id = decided.id and job.locked_by = decided.worker_id and job.locked_at = decided.locked_at
            for update skip locked
        ) as job
),
held_queue as (
    select met.id as job_id, met.job_queue_id as id, met.worker_id, met.locked_at, free.id is null as is_busy
    from
        met
        cross join lateral (
            select
            from :schema._private_job_queues as queue
            where
                queue.id = met.job_queue_id
                and queue.locked_by = met.worker_id
                and queue.locked_at = met.locked_at
            offset 0
        ) as ours
        left join lateral (
            select queue.id
            from :schema._private_job_queues as queue
            where
                queue.id = met.job_queue_id
                and queue.locked_by = met.worker_id
                and queue.locked_at = met.locked_at
            for update skip locked
        ) as free on true
),
owned as (
    select met.*
    from met
    where met.id <> all (array(select held_queue.job_id from held_queue where held_queue.is_busy))
),
done as (
    update :schema._private_jobs as job
    set
        attempts = case
            when owned.is_superseded then job.attempts
            when owned.effect = 'fail' then job.max_attempts
            when owned.effect = 'retry' then job.attempts
            when owned.effect = 'reschedule' and owned.attempts is not null then owned.attempts
            else greatest(0, job.attempts - 1)
        end,
        run_at = case
            when owned.is_superseded then job.run_at
            when owned.effect = 'requeue' then greatest(job.run_at, now() + owned.delay * interval '1 second')
            when owned.effect = 'retry'
                then greatest(job.run_at, now())
                    + coalesce(owned.delay, exp(least(job.attempts, 10))) * interval '1 second'
            when owned.effect = 'reschedule' then owned.run_at
            else job.run_at
        end,
        last_error = case
            when owned.is_superseded then coalesce(
                job.last_error,
                -- include: parts/superseded_error
            )
            else coalesce(owned.error, job.last_error)
        end,
        payload = case
            when owned.is_superseded then job.payload
            else coalesce(cast(owned.payload as json), job.payload)
        end,
        flags = case
            when owned.is_superseded or owned.suspicion is null then job.flags
            when job.flags is not null and jsonb_typeof(job.flags) <> 'object' then job.flags
            when owned.suspicion = 'none' or (owned.effect = 'retry' and owned.is_last)
                then nullif(job.flags - array['ferryman:crashed', 'ferryman:suspect', 'ferryman:alone'], jsonb '{}')
            else
                jsonb_build_object('ferryman:crashed', cast(extract(epoch from now()) * 1000000 as bigint))
                || coalesce(job.flags, jsonb '{}')
                || case owned.suspicion
                    when 'suspect' then jsonb '{"ferryman:suspect": true}'
                    when 'alone' then jsonb '{"ferryman:suspect": true, "ferryman:alone": true}'
                    else jsonb '{}'
                end
        end,
        updated_at = now(),
        locked_by = null,
        locked_at = null
    from owned
    where
        job.id = any (array[owned.id])
        and job.locked_by = owned.worker_id
        and job.locked_at is not distinct from owned.locked_at
    returning job.id
),
freed as (
    update :schema._private_job_queues as queue
    set locked_by = null, locked_at = null
    from held_queue
    where
        not held_queue.is_busy
        and queue.id = any (array[held_queue.id])
        and queue.locked_by is not distinct from held_queue.worker_id
        and queue.locked_at is not distinct from held_queue.locked_at
),
unmarked as (
    delete from :schema._ferryman_started_jobs as mark where mark.job_id = any (array(select done.id from done))
),
recorded as (
    insert into :schema._ferryman_crashes
        (job_id, task_identifier, worker_id, recovered_by, attempt, started, decision, reason)
    select
        owned.id,
        coalesce(owned.task_identifier, ''),
        owned.worker_id,
        cast(:recovered_by as text),
        owned.attempt,
        owned.started,
        case when owned.is_superseded then 'superseded' else owned.decision end,
        owned.reason
    from owned
    order by owned.id
)
select
    owned.id,
    owned.worker_id,
    coalesce(owned.task_identifier, ''),
    owned.attempt,
    owned.started,
    case when owned.is_superseded then 'superseded' else owned.decision end,
    owned.reason,
    not owned.is_superseded
    and (owned.effect = 'fail' or (owned.effect = 'retry' and owned.is_last)) as is_over,
    owned.error
from owned
order by owned.id;
