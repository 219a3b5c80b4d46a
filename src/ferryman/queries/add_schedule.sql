-- Keep a crontab in the database, and make it known from now on. No row comes back when its name is taken: by another
-- schedule, or, unless :take_over, by a crontab that workers bring along.
-- Locks: the rows of that name against others that add the same.
with schedule as (
    insert into :schema._ferryman_schedules (
        identifier, timing, time_zone, task_identifier, payload, fill_seconds, queue_name, max_attempts, priority,
        flags, job_key, job_key_mode, is_paused
    )
    select
        cast(:identifier as text), cast(:timing as text), cast(:time_zone as text), cast(:task_identifier as text),
        cast(cast(:payload as text) as json), cast(:fill_seconds as bigint), cast(:queue_name as text),
        cast(:max_attempts as smallint), cast(:priority as smallint), cast(:flags as text[]),
        cast(:job_key as text), cast(:job_key_mode as text), cast(:is_paused as boolean)
    where
        cast(:take_over as boolean)
        or not exists (
            select from :schema._private_known_crontabs as known where known.identifier = cast(:identifier as text)
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
    -- include: schedule_columns
from schedule;
