-- needs: nothing
-- gives: stuck, wedged
-- Queues that are locked although their holder has no job in them, and what is known of the holder. A claim locks a queue
-- and its job in one statement, and settling frees both in one, so this is never a moment in between.
--
-- :silent_for   seconds without a heartbeat after which a registered holder is silent
-- :locked_for   seconds after which the lock of a holder that never registered has expired
--
-- fate   nobody    the lock names no holder
--        gone      the holder was declared dead and swept, after it had locked the queue
--        expired   the holder never registered, and has had the lock for longer than Node keeps one
--        silent    the holder is registered, without a heartbeat for :silent_for seconds and two of its intervals
--        alive     the holder is registered and sends heartbeats
--        unknown   none of these: a holder that does not register may be alive or not
stuck as materialized (
    select queue.ctid as row_ctid, queue.id, queue.queue_name, queue.locked_by, queue.locked_at
    from :schema._private_job_queues as queue
    where
        (queue.locked_at is not null or queue.locked_by is not null)
        and not exists (
            select
            from :schema._private_jobs as job
            where job.job_queue_id = queue.id and job.locked_by = queue.locked_by
        )
),
wedged as materialized (
    select
        stuck.*,
        case
            when stuck.locked_by is null then 'nobody'
            when worker.silence is null and exists (
                select
                from :schema._ferryman_lost_workers as lost
                where lost.worker_id = stuck.locked_by and lost.noticed_at >= stuck.locked_at
            ) then 'gone'
            when worker.silence is null
                then case
                    when stuck.locked_at < now() - cast(:locked_for as float8) * interval '1 second' then 'expired'
                    else 'unknown'
                end
            when worker.silence > greatest(cast(:silent_for as float8), worker.patience) then 'silent'
            else 'alive'
        end as fate
    from
        stuck
        left join lateral (
            select
                extract(epoch from now() - greatest(known.last_heartbeat_at, pg_postmaster_start_time())) as silence,
                2 * coalesce(
                    -- include: parts/beat_interval
                    , 0
                ) as patience
            from :schema._private_workers as known
            where known.id = stuck.locked_by
        ) as worker on true
)
