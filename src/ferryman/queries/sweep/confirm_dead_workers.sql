-- Lock the rows of workers that are still dead: their newest heartbeat has not changed, or they are still unregistered.
--
-- :workers   a JSON array of id, beat (microseconds; null for one that is not registered) and is_named: declared dead by
--            hand, even if it sends heartbeats
--
-- Returns the ids of those that are still dead.
-- Locks: the rows of these workers, so that a heartbeat that comes now waits and then finds out what happened. A row that
-- another session has locked is about to get a heartbeat, and counts as alive; if its worker is named, this waits.
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
