-- Give a schedule another crontab under the same name. With another timing, minutes before now are not made up for.
-- Locks: the row of the schedule. Waits for workers that are adding its jobs right now.
with schedule as (
    update :schema._ferryman_schedules as schedule
    set
        timing = cast(:timing as pg_catalog.text),
        time_zone = cast(:time_zone as pg_catalog.text),
        task_identifier = cast(:task_identifier as pg_catalog.text),
        payload = cast(cast(:payload as pg_catalog.text) as pg_catalog.json),
        fill_seconds = cast(:fill_seconds as bigint),
        queue_name = cast(:queue_name as pg_catalog.text),
        max_attempts = cast(:max_attempts as smallint),
        priority = cast(:priority as smallint),
        flags = cast(:flags as pg_catalog.text[]),
        job_key = cast(:job_key as pg_catalog.text),
        job_key_mode = cast(:job_key_mode as pg_catalog.text),
        active_since = case
            when (schedule.timing, schedule.time_zone) operator(pg_catalog.=) (cast(:timing as pg_catalog.text), cast(:time_zone as pg_catalog.text))
                then schedule.active_since
            else pg_catalog.clock_timestamp()
        end,
        revision = schedule.revision operator(pg_catalog.+) 1,
        updated_at = pg_catalog.clock_timestamp()
    where schedule.identifier operator(pg_catalog.=) cast(:identifier as pg_catalog.text)
    returning *
)
select
    -- include: parts/schedule_columns
from schedule;
