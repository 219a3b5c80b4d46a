-- Unlock jobs that were not completed: failed ones with their error and the time of the next attempt, and unused ones with
-- their attempt. Frees the named queues that their claims held.
--
-- :worker_id  the worker
-- :releases   a JSON array of
--     id, token, queue_id   the claim; see complete_claims.sql for the fence
--     effect                'retry': the attempt is used; 'fail': no attempt is left; 'return': the attempt is given back
--     error                 null keeps the last one
--     delay                 seconds; null means the usual delay for 'retry', and for 'return' that run_at stays as it is,
--                           so that the job keeps its place among the others
--     payload               JSON text of a replacement; null keeps the payload
--     run_at, attempts      for 'return', instead of the delay and of one attempt less
--     clears                whether the attempt has ended in an ordinary way: crashes of the job count no longer
--     crash_window          given if the job's own child process died: how long crashes count, in seconds. The crash is
--                           recorded, and at `most_crashes` of them or more (null: never) the job fails for good, with
--                           `last_error`
-- :patience   see parts/patience.sql
--
-- Returns a row for each job that was unlocked: its id, and whether no attempt is left. See complete_claims.sql for the
-- others.
--
-- A superseded job ends with this run: it does not get its attempt back. See parts/is_superseded.sql.
-- Rows are found one by one, by their id; complete_claims.sql has the reasons.
-- Locks: the rows of these jobs, then of these queues.
with
-- include: parts/patience
release as (
    select
        item.*,
        timestamptz 'epoch' + item.token * interval '1 microsecond' as locked_at,
        item.delay * interval '1 second' as pause
    from json_to_recordset(cast(cast(:releases as text) as json)) as item (
        id bigint, token bigint, queue_id int, effect text, error text, delay float8, payload text,
        run_at timestamptz, attempts int, clears boolean, crash_window float8, most_crashes int, last_error text
    )
),
crash as (
    -- Jobs of this worker whose child processes died. No other session counts their crashes while the claim holds.
    select release.id, job.attempts, counted.before + 1 >= release.most_crashes as is_last
    from
        release
        cross join lateral (
            select job.attempts, job.flags -> 'ferryman:crashed' as since
            from :schema._private_jobs as job
            where
                job.id = release.id
                and job.locked_by = cast(:worker_id as text)
                and job.locked_at = release.locked_at
            offset 0
        ) as job
        cross join lateral (
            select count(*) as before
            from :schema._ferryman_crashes as past
            where
                past.job_id = release.id
                and jsonb_typeof(job.since) = 'number'
                and extract(epoch from past.noticed_at) * 1000000 >= cast(job.since as numeric)
                and past.noticed_at > now() - release.crash_window * interval '1 second'
                and past.started is not false
                and past.decision <> 'superseded'
        ) as counted
    where release.crash_window is not null
),
done as (
    update :schema._private_jobs as job
    set
        attempts = case
            when release.effect = 'fail' then job.max_attempts
            when release.crash_window is not null
                and exists (select from crash where crash.id = release.id and crash.is_last)
                then job.max_attempts
            when release.effect = 'return'
                and not
                -- include: parts/is_superseded
                then coalesce(release.attempts, greatest(0, job.attempts - 1))
            else job.attempts
        end,
        run_at = case
            when release.effect = 'retry'
                then greatest(now(), job.run_at)
                    + coalesce(release.pause, exp(least(job.attempts, 10)) * interval '1 second')
            when release.effect = 'return' and release.run_at is not null then release.run_at
            when release.effect = 'return' and release.pause is not null
                then greatest(job.run_at, now() + release.pause)
            else job.run_at
        end,
        last_error = case
            when release.crash_window is not null
                and exists (select from crash where crash.id = release.id and crash.is_last)
                then release.last_error
            when release.effect = 'return'
                and
                -- include: parts/is_superseded
                then coalesce(
                    release.error,
                    job.last_error,
                    -- include: parts/superseded_error
                )
            else coalesce(release.error, job.last_error)
        end,
        flags = case
            when release.crash_window is not null
                and job.attempts < job.max_attempts
                and (job.flags is null or jsonb_typeof(job.flags) = 'object')
                and not exists (select from crash where crash.id = release.id and crash.is_last)
                then jsonb_build_object('ferryman:crashed', cast(extract(epoch from now()) * 1000000 as bigint))
                    || coalesce(job.flags, jsonb '{}')
            when job.flags is null or jsonb_typeof(job.flags) <> 'object' then job.flags
            when release.clears or release.effect = 'fail' or release.crash_window is not null
                then nullif(job.flags - array['ferryman:crashed', 'ferryman:suspect', 'ferryman:alone'], jsonb '{}')
            else job.flags
        end,
        payload = coalesce(cast(release.payload as json), job.payload),
        updated_at = case
            -- Only this shows when a job failed for good.
            when release.effect in ('return', 'fail')
                or job.attempts >= job.max_attempts
                or exists (select from crash where crash.id = release.id and crash.is_last)
                then now()
            else job.updated_at
        end,
        locked_by = null,
        locked_at = null
    from release
    where
        (select patience.is_set from patience)
        and job.id = any (array[release.id])
        and job.locked_by = cast(:worker_id as text)
        and job.locked_at is not distinct from release.locked_at
    returning job.id, job.task_id, job.attempts >= job.max_attempts as is_last
),
recorded as (
    insert into :schema._ferryman_crashes
        (job_id, task_identifier, worker_id, recovered_by, attempt, started, decision, reason)
    select
        done.id,
        coalesce((select task.identifier from :schema._private_tasks as task where task.id = done.task_id), ''),
        cast(:worker_id as text),
        cast(:worker_id as text),
        crash.attempts,
        true,
        case when crash.is_last then 'poisoned' else 'retry' end,
        'child process died'
    from
        done
        join crash on crash.id = done.id
),
freed as (
    update :schema._private_job_queues as queue
    set locked_by = null, locked_at = null
    from release
    where
        (select patience.is_set from patience)
        and queue.id = any (array[release.queue_id])
        and queue.locked_by = cast(:worker_id as text)
        and queue.locked_at is not distinct from release.locked_at
)
select done.id, done.is_last
from done;
