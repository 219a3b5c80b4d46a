-- Store in the rows of silent workers for how long their silence was observed. Observers that do not run long enough to find
-- a worker dead add up what they saw. A note names a heartbeat, so the next heartbeat makes it void.
--
-- :silences   a JSON array of id, beat (microseconds) and seconds
--
-- Locks: the rows of these workers. A row that another session has locked is skipped: a heartbeat or a sweep is under way.
with given as (
    select item.id, item.beat, item.seconds
    from json_to_recordset(cast(cast(:silences as text) as json)) as item (id text, beat bigint, seconds float8)
),
free as (
    select worker.id, given.beat, given.seconds
    from
        given
        inner join :schema._private_workers as worker
            on worker.id = given.id and cast(extract(epoch from worker.last_heartbeat_at) * 1000000 as bigint) = given.beat
    where worker.metadata is null or jsonb_typeof(worker.metadata) = 'object'
    for update of worker skip locked
)
update :schema._private_workers as worker
set
    metadata = coalesce(worker.metadata, jsonb '{}')
    || jsonb_build_object('silence', jsonb_build_object('beat', free.beat, 'seconds', free.seconds))
from free
where
    worker.id = free.id
    and cast(extract(epoch from worker.last_heartbeat_at) * 1000000 as bigint) = free.beat
returning worker.id;
