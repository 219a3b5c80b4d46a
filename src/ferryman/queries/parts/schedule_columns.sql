-- needs: row schedule
-- gives: columns
-- The columns of a stored schedule that clients see; `ferryman.cron.stored` reads it.
schedule.identifier,
schedule.revision,
least(greatest(schedule.active_since, pg_catalog.timestamptz '0001-01-03 00:00Z'), pg_catalog.timestamptz '9999-12-30 00:00Z'),
schedule.timing,
schedule.time_zone,
schedule.task_identifier,
cast(schedule.payload as pg_catalog.text),
schedule.fill_seconds,
schedule.queue_name,
schedule.max_attempts,
schedule.priority,
schedule.flags,
schedule.job_key,
schedule.job_key_mode,
schedule.is_paused,
least(greatest(schedule.created_at, pg_catalog.timestamptz '0001-01-03 00:00Z'), pg_catalog.timestamptz '9999-12-30 00:00Z'),
least(greatest(schedule.updated_at, pg_catalog.timestamptz '0001-01-03 00:00Z'), pg_catalog.timestamptz '9999-12-30 00:00Z'),
(
    select least(greatest(known.last_execution, pg_catalog.timestamptz '0001-01-03 00:00Z'), pg_catalog.timestamptz '9999-12-30 00:00Z')
    from :schema._private_known_crontabs as known
    where known.identifier operator(pg_catalog.=) schedule.identifier and known.last_execution is not null
),
pg_catalog.now()
