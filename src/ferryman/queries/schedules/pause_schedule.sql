-- Pause a schedule, or let it go on. What would have fired while it was paused is not made up for.
-- Locks: the row of the schedule; waits for workers that are adding its jobs right now. One that is as asked for already
-- is locked all the same, but stays as it is.
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
