-- The sessions, transactions and slots that keep dead rows from being removed, the oldest first. Locks nothing.
--
-- In this database that is every session with a snapshot or a transaction number; elsewhere, only those with a number, which
-- all later snapshots respect. Vacuum ignores itself. PostgreSQL does not say since when a slot holds rows back. The
-- catalog_xmin of a slot is left out: it holds back rows of PostgreSQL's own catalogues only.
--
-- Columns: kind, name (a pid, or that of the transaction or slot), role, application, state, database, seconds,
-- transactions.
select holder.*
from (
    select
        case session.backend_type when 'walsender' then 'standby' else 'session' end as kind,
        cast(session.pid as text) as name,
        cast(session.usename as text) as role,
        session.application_name as application,
        session.state,
        cast(session.datname as text) as database,
        cast(extract(epoch from clock_timestamp() - session.xact_start) as float8) as seconds,
        case
            when session.datname is distinct from current_database() and session.backend_type <> 'walsender'
                then age(session.backend_xid)
            else greatest(age(session.backend_xmin), age(session.backend_xid))
        end as transactions
    from pg_stat_activity as session
    where
        session.pid <> pg_backend_pid()
        and session.backend_type <> 'autovacuum worker'
        and session.pid not in (select vacuum.pid from pg_stat_progress_vacuum as vacuum)
    union all
    select
        'prepared transaction',
        prepared.gid,
        cast(prepared.owner as text),
        null,
        null,
        cast(prepared.database as text),
        cast(extract(epoch from clock_timestamp() - prepared.prepared) as float8),
        age(prepared.transaction)
    from pg_prepared_xacts as prepared
    union all
    select
        'replication slot',
        cast(slot.slot_name as text),
        null,
        cast(slot.plugin as text),
        case when slot.active then 'active' else 'inactive' end,
        cast(slot.database as text),
        null,
        age(slot.xmin)
    from pg_replication_slots as slot
) as holder
where holder.transactions is not null
order by holder.transactions desc, holder.seconds desc nulls last
limit 20;
