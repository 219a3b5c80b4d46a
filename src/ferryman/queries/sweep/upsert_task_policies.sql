-- Store what a crash means for the jobs of these tasks, where that differs from what is stored.
--
-- :policies   a JSON array of task_identifier, on_crash and the four retry columns; see _ferryman_task_policies.sql
--
-- A task without a policy gets no row, unless it had one. In the normal case nothing is written.
-- Locks: the rows that change, in the order of their names, so that workers that start together never wait in a circle.
with wanted as (
    select item.*
    from json_to_recordset(cast(cast(:policies as text) as json)) as item (
        task_identifier text, on_crash text, retry_base_seconds float8, retry_step_seconds float8,
        retry_most_seconds float8, retry_jitter float8
    )
)
insert into :schema._ferryman_task_policies
    (task_identifier, on_crash, retry_base_seconds, retry_step_seconds, retry_most_seconds, retry_jitter)
select
    wanted.task_identifier,
    wanted.on_crash,
    wanted.retry_base_seconds,
    wanted.retry_step_seconds,
    wanted.retry_most_seconds,
    wanted.retry_jitter
from
    wanted
    left join :schema._ferryman_task_policies as stored on stored.task_identifier = wanted.task_identifier
where
    (wanted.on_crash is not null or stored.task_identifier is not null)
    and (
        stored.task_identifier is null
        or (stored.on_crash, stored.retry_base_seconds, stored.retry_step_seconds, stored.retry_most_seconds,
            stored.retry_jitter)
        is distinct from
        (wanted.on_crash, wanted.retry_base_seconds, wanted.retry_step_seconds, wanted.retry_most_seconds,
            wanted.retry_jitter)
    )
order by wanted.task_identifier
on conflict (task_identifier) do update set
    on_crash = excluded.on_crash,
    retry_base_seconds = excluded.retry_base_seconds,
    retry_step_seconds = excluded.retry_step_seconds,
    retry_most_seconds = excluded.retry_most_seconds,
    retry_jitter = excluded.retry_jitter
returning task_identifier;
