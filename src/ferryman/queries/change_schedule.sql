-- Give a schedule another crontab under the same name. With another timing, minutes before now are not made up for.
-- Locks: the row of the schedule; waits for workers that are adding its jobs right now.
with schedule as (
    update :schema._ferryman_schedules as schedule
    set
        timing = cast(:timing as text),
        time_zone = cast(:time_zone as text),
        task_identifier = cast(:task_identifier as text),
        payload = cast(cast(:payload as text) as json),
        fill_seconds = cast(:fill_seconds as bigint),
        queue_name = cast(:queue_name as text),
        max_attempts = cast(:max_attempts as smallint),
        priority = cast(:priority as smallint),
        flags = cast(:flags as text[]),
        job_key = cast(:job_key as text),
        job_key_mode = cast(:job_key_mode as text),
        active_since = case
            when (schedule.timing, schedule.time_zone) = (cast(:timing as text), cast(:time_zone as text))
                then schedule.active_since
            else clock_timestamp()
        end,
        revision = schedule.revision + 1,
        updated_at = clock_timestamp()
    where schedule.identifier = cast(:identifier as text)
    returning *
)
select
    -- include: schedule_columns
from schedule;
