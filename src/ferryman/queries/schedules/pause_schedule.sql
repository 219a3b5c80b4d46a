-- Pause a schedule, or resume it. Minutes that passed while it was paused are not made up for.
-- Locks: the row of the schedule, even if nothing changes. Waits for workers that are adding its jobs right now.
with schedule as (
    update :schema._ferryman_schedules as schedule
    set
        is_paused = cast(:is_paused as boolean),
        active_since = case
            when schedule.is_paused and not cast(:is_paused as boolean) then pg_catalog.clock_timestamp()
            else schedule.active_since
        end,
        revision = schedule.revision operator(pg_catalog.+)
            cast(schedule.is_paused operator(pg_catalog.<>) cast(:is_paused as boolean) as integer),
        updated_at = case
            when schedule.is_paused operator(pg_catalog.<>) cast(:is_paused as boolean) then pg_catalog.clock_timestamp()
            else schedule.updated_at
        end
    where schedule.identifier operator(pg_catalog.=) cast(:identifier as pg_catalog.text)
    returning *
)
select
    -- include: parts/schedule_columns
from schedule;
