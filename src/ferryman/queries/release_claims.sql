-- Give back jobs that were not completed: failed ones with their error and the time of the next attempt, and unused ones
-- with their attempt. Frees the named queues that their claims held.
--
-- :releases  a JSON array of
--     id, token, queue_id   the claim; see complete_claims.sql for the fence
--     effect                'retry': the attempt is used; 'fail': no attempt is left; 'return': the attempt is given back
--     error                 null keeps the last one
--     delay                 seconds; null means the usual delay for 'retry' and none for 'return'
--     payload               JSON text of a replacement; null keeps the payload
--     run_at, attempts      for 'return', instead of the delay and of one attempt less
--
-- A job whose key was taken over while it ran has lost its key and all attempts, so that it ends with this run. It is not
-- given its attempt back, which would let it run again.
-- Rows are locked one by one (lateral) and then changed at their place in the table, for the reason in
-- complete_claims.sql. Locks: the rows of these jobs and queues.
with release as (
    select
        item.*,
        timestamptz 'epoch' + item.token * interval '1 microsecond' as locked_at,
        item.delay * interval '1 second' as pause
    from json_to_recordset(cast(cast(:releases as text) as json)) as item (
        id bigint, token bigint, queue_id int, effect text, error text, delay float8, payload text,
        run_at timestamptz, attempts int
    )
),
owned as (
    select release.*, job.place
    from
        release
        cross join lateral (
            select job.ctid as place
            from :schema._private_jobs as job
            where
                job.id = release.id
                and job.locked_by = cast(:worker_id as text)
                and job.locked_at = release.locked_at
            for update
        ) as job
),
held as (
    select queue.place
    from
        (select * from release where release.queue_id is not null) as release
        cross join lateral (
            select queue.ctid as place
            from :schema._private_job_queues as queue
            where
                queue.id = release.queue_id
                and queue.locked_by = cast(:worker_id as text)
                and queue.locked_at = release.locked_at
            for update
        ) as queue
),
done as (
    update :schema._private_jobs as job
    set
        attempts = case
            when owned.effect = 'fail' then job.max_attempts
            when owned.effect = 'return'
                and not (job.key is null and job.attempts >= job.max_attempts and job.updated_at > job.locked_at)
                then coalesce(owned.attempts, greatest(0, job.attempts - 1))
            else job.attempts
        end,
        run_at = case owned.effect
            when 'retry'
                then greatest(now(), job.run_at)
                    + coalesce(owned.pause, exp(least(job.attempts, 10)) * interval '1 second')
            when 'return'
                then coalesce(owned.run_at, greatest(job.run_at, now() + coalesce(owned.pause, interval '0')))
            else job.run_at
        end,
        last_error = coalesce(owned.error, job.last_error),
        payload = coalesce(cast(owned.payload as json), job.payload),
        updated_at = case owned.effect when 'return' then now() else job.updated_at end,
        locked_by = null,
        locked_at = null
    from owned
    where job.ctid = owned.place
    returning job.id, job.attempts >= job.max_attempts as is_last
),
freed as (
    update :schema._private_job_queues as queue
    set locked_by = null, locked_at = null
    from held
    where queue.ctid = held.place
)
select id, is_last from done;
