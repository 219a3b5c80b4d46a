-- The sessions that hold an advisory lock of recovery for this schema, other than this one.
--
-- :sweep_class, :schema_name   the lock of a sweep, which is held by a transaction
-- :watch_class, :watch_key     the lock of the watcher, which a session of a registered worker holds
-- :session_class               the class of the workers' session locks
--
-- One row comes back for each holder: 'sweep' or 'watch', its process, application and role, whether it is the session of
-- a registered worker, whether it is in a transaction, and for how many seconds it has been in that state. What this role
-- may not see of other sessions is null. Locks nothing.
select
    case held.classid when cast(cast(:sweep_class as bigint) as oid) then 'sweep' else 'watch' end,
    held.pid,
    coalesce(session.application_name, ''),
    coalesce(cast(session.usename as text), ''),
    exists (
        select
        from
            pg_locks as own,
            :schema._private_workers as worker
        where
            own.pid = held.pid
            and own.locktype = 'advisory'
            and own.objsubid = 2
            and own.classid = cast(cast(:session_class as bigint) as oid)
            and own.database = held.database
            and worker.metadata -> 'session_key' = to_jsonb(cast(own.objid as bigint))
    ),
    session.xact_start is not null,
    cast(extract(epoch from clock_timestamp() - coalesce(session.xact_start, session.state_change)) as float8)
from
    pg_locks as held
    left join pg_stat_activity as session on session.pid = held.pid
where
    held.locktype = 'advisory'
    and held.objsubid = 2
    and held.granted
    and held.database = (select oid from pg_database where datname = current_database())
    and held.pid <> pg_backend_pid()
    and (
        (
            held.classid = cast(cast(:sweep_class as bigint) as oid)
            and held.objid = cast(cast(hashtext(cast(:schema_name as text)) as bigint) & 4294967295 as oid)
        )
        or (
            held.classid = cast(cast(:watch_class as bigint) as oid)
            and held.objid = cast(cast(:watch_key as bigint) as oid)
        )
    )
order by 1, 2;
