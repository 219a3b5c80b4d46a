-- Store a schedule, and make it known from now on. Returns no row if its name is taken: by another schedule, or, unless
-- :take_over, by a crontab that a worker has registered.
-- Locks: the rows of that name, against others that add the same.
with schedule as (
    insert into :schema._ferryman_schedules (
        identifier, timing, time_zone, task_identifier, payload, fill_seconds, queue_name, max_attempts, priority,
        flags, job_key, job_key_mode, is_paused
    )
    select
        cast(:identifier as pg_catalog.text), cast(:timing as pg_catalog.text), cast(:time_zone as pg_catalog.text), cast(:task_identifier as pg_catalog.text),
        cast(cast(:payload as pg_catalog.text) as pg_catalog.json), cast(:fill_seconds as bigint), cast(:queue_name as pg_catalog.text),
        cast(:max_attempts as smallint), cast(:priority as smallint), cast(:flags as pg_catalog.text[]),
        cast(:job_key as pg_catalog.text), cast(:job_key_mode as pg_catalog.text), cast(:is_paused as boolean)
    where
        cast(:take_over as boolean)
        or not exists (
            select from :schema._private_known_crontabs as known where known.identifier operator(pg_catalog.=) cast(:identifier as pg_catalog.text)
        )
    on conflict (identifier) do nothing
    returning *
),
known as (
    insert into :schema._private_known_crontabs (identifier, known_since)
    select schedule.identifier, schedule.active_since from schedule
    on conflict (identifier) do nothing
)
select
    -- include: parts/schedule_columns
from schedule;
