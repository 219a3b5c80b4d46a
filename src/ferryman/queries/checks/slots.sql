-- Logical replication slots, the one that is furthest behind first: whether a client reads from it, how many transactions ago
-- its catalogue rows were current, and how many bytes of WAL the server keeps for it. Locks nothing.
--
-- On a standby the last WAL that was replayed counts.
select
    cast(slot.slot_name as text),
    cast(slot.plugin as text),
    slot.active,
    cast(slot.database as text),
    age(slot.catalog_xmin),
    cast(
        pg_wal_lsn_diff(
            case when pg_is_in_recovery() then pg_last_wal_replay_lsn() else pg_current_wal_lsn() end, slot.restart_lsn
        ) as bigint
    ) as behind
from pg_replication_slots as slot
where slot.slot_type = 'logical'
order by behind desc nulls last, slot.slot_name
limit 20;
