-- The stored schedules, by name; with :identifier only that one. Locks nothing.
select
    -- include: parts/schedule_columns
from :schema._ferryman_schedules as schedule
where cast(:identifier as pg_catalog.text) is null or schedule.identifier operator(pg_catalog.=) cast(:identifier as pg_catalog.text)
order by schedule.identifier;
