-- The values that a worker needs at the beginning of a minute: the time, its own crontabs, and the stored schedules.
--
-- :identifiers   the names of the worker's own crontabs
--
-- Returns a row for each crontab; if there is none, a single row with nothing but the time. Locks nothing.
--
-- A time that no driver can decode, such as infinity, comes as the nearest that it can: one row must not spoil the others.
select
    moment.now,
    crontab.identifier,
    crontab.revision,
    crontab.active_since,
    crontab.timing,
    crontab.time_zone,
    crontab.task_identifier,
    crontab.payload,
    crontab.fill_seconds,
    crontab.queue_name,
    crontab.max_attempts,
    crontab.priority,
    crontab.flags,
    crontab.job_key,
    crontab.job_key_mode,
    known.known_since,
    known.last_execution
from
    (select clock_timestamp() as now) as moment
    left join lateral (
        select
            schedule.identifier, schedule.revision,
            least(greatest(schedule.active_since, timestamptz '0001-01-03 00:00Z'), timestamptz '9999-12-30 00:00Z') as active_since,
            schedule.timing, schedule.time_zone, schedule.task_identifier, cast(schedule.payload as text) as payload, schedule.fill_seconds,
            schedule.queue_name, schedule.max_attempts, schedule.priority, schedule.flags, schedule.job_key,
            schedule.job_key_mode
        from :schema._ferryman_schedules as schedule
        where not schedule.is_paused
        union all
        select own.identifier, null, null, null, null, null, null, null, null, null, null, null, null, null
        from unnest(cast(:identifiers as text[])) as own (identifier)
    ) as crontab on true
    left join lateral (
        select
            least(greatest(known.known_since, timestamptz '0001-01-03 00:00Z'), timestamptz '9999-12-30 00:00Z') as known_since,
            case when known.last_execution is not null
                then least(greatest(known.last_execution, timestamptz '0001-01-03 00:00Z'), timestamptz '9999-12-30 00:00Z')
            end as last_execution
        from :schema._private_known_crontabs as known
        where known.identifier = crontab.identifier
    ) as known on true;
