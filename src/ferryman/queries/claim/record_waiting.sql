-- Record which claims of a worker wait in its local queue and have not started.
--
-- :waiting   a JSON object of arrays of job ids, by token
--
-- The list does not wait for the disk: an older one is as right as this one, since jobs on it are marked when they start.
-- Locks: the worker's row. A row that a sweep has locked is skipped: this list comes too late.
with relaxed as materialized (
    select set_config('synchronous_commit', 'off', true)
),
own as materialized (
    select worker.id
    from
        relaxed
        cross join lateral (
            select known.id
            from :schema._private_workers as known
            where known.id = cast(:worker_id as text)
            for no key update skip locked
        ) as worker
)
update :schema._private_workers as worker
set metadata = worker.metadata || jsonb_build_object('waiting', cast(cast(:waiting as text) as jsonb))
from own
where worker.id = own.id and jsonb_typeof(worker.metadata) = 'object'
returning worker.id;
