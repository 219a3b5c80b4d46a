-- Which of these workers are still as dead as they were: their newest beat has not moved, or they are still unregistered.
--
-- :workers   a JSON array of id, beat (microseconds; null for one that is not registered) and is_named: declared dead by
--            somebody, whatever signs of life it gives
--
-- Locks: the rows of these workers, so that a beat that comes now waits and then finds out what happened. A row that is
-- locked by somebody else is about to beat, and counts as alive; that of a named worker is waited for.
with given as (
    select item.id, item.is_named, timestamptz 'epoch' + item.beat * interval '1 microsecond' as beat
    from json_to_recordset(cast(cast(:workers as text) as json)) as item (id text, beat bigint, is_named boolean)
),
registered as (
    select worker.id
    from
        given
        cross join lateral (
            select known.id
            from :schema._private_workers as known
            where known.id = given.id and known.last_heartbeat_at = given.beat
            for update skip locked
        ) as worker
    where not given.is_named
),
named as (
    select worker.id
    from
        given
        cross join lateral (
            select known.id from :schema._private_workers as known where known.id = given.id for update
        ) as worker
    where given.is_named
)
select registered.id from registered
union all
select named.id from named
union all
select given.id
from given
where given.beat is null and not exists (select from :schema._private_workers as known where known.id = given.id);
