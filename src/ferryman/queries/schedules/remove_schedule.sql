-- Remove a schedule, and forget when it fired: a new schedule of that name starts afresh. Its jobs stay.
-- Locks: the row of the schedule, then the row of the known crontab, in the order in which workers lock them.
with removed as (
    delete from :schema._ferryman_schedules as schedule
    where schedule.identifier operator(pg_catalog.=) cast(:identifier as pg_catalog.text)
    returning schedule.identifier
),
forgotten as (
    delete from :schema._private_known_crontabs as known
    using removed
    where known.identifier operator(pg_catalog.=) removed.identifier
)
select removed.identifier from removed;
