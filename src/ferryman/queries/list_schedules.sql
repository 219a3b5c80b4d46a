-- The schedules that are kept in the database, by name; with :identifier only that one. Nothing is locked.
select
    -- include: schedule_columns
from :schema._ferryman_schedules as schedule
where cast(:identifier as text) is null or schedule.identifier = cast(:identifier as text)
order by schedule.identifier;
