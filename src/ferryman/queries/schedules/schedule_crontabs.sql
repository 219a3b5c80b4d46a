-- Add the jobs of crontabs whose minutes have come: each crontab and minute once among all workers, Node's included.
--
-- :occurrences   a JSON array, one element for each job, numbered by `place` in the order in which they are added
--
-- Returns one row: the places of the jobs that were added, their ids, and the names of crontabs that are not known, or no
-- longer known, whose jobs were not added.
--
-- The worker that moves last_execution of a crontab adds the jobs of all minutes after the old value, up to the new one. Node
-- has the same rule.
--
-- Locks: first the stored schedules among them, FOR SHARE, so that one that was paused, changed or removed since it was read
-- adds nothing, and a session that does that next waits for this transaction. Then the rows of known crontabs, in the order
-- of their names: workers that come at the same time queue up there, and those behind find that the minute is taken.
with occurrence as materialized (
    select *
    from json_to_recordset(cast(cast(:occurrences as text) as json)) as occurrence (
        place int, identifier text, revision bigint, minute timestamptz, task_identifier text, payload json,
        queue_name text, max_attempts int, priority int, flags text[], job_key text, job_key_mode text
    )
),
stored as materialized (
    select schedule.identifier
    from
        (
            select distinct identifier, revision from occurrence where revision is not null order by identifier
        ) as wanted,
        lateral (
            select schedule.identifier
            from :schema._ferryman_schedules as schedule
            where
                schedule.identifier = wanted.identifier
                and schedule.revision = wanted.revision
                and not schedule.is_paused
            for share
        ) as schedule
),
wanted as materialized (
    select occurrence.*
    from occurrence
    where occurrence.revision is null or occurrence.identifier in (select identifier from stored)
),
known as materialized (
    select known.identifier, known.last_execution
    from
        (select distinct identifier from wanted order by identifier) as named,
        lateral (
            select known.identifier, known.last_execution
            from :schema._private_known_crontabs as known
            where known.identifier = named.identifier
            for update
        ) as known
),
due as materialized (
    select wanted.*
    from wanted join known using (identifier)
    where known.last_execution is null or wanted.minute > known.last_execution
),
moved as (
    update :schema._private_known_crontabs as known
    set last_execution = newest.minute
    from (select identifier, max(minute) as minute from due group by identifier) as newest
    where known.identifier = newest.identifier
),
added as (
    select array_agg(job.place) as places, array_agg(job.id) as ids
    from (
        select due.place, job.id
        from
            (select * from due order by place) as due,
            lateral :schema.add_job(
                identifier => due.task_identifier,
                payload => due.payload,
                queue_name => due.queue_name,
                run_at => due.minute,
                max_attempts => due.max_attempts,
                job_key => due.job_key,
                priority => due.priority,
                flags => due.flags,
                job_key_mode => coalesce(due.job_key_mode, 'replace')
            ) as job
    ) as job
)
select
    coalesce(added.places, '{}'),
    coalesce(added.ids, '{}'),
    array(select distinct identifier from wanted where identifier not in (select identifier from known))
from added;
