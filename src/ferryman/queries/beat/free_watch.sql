-- End the session that holds the watcher's lock, if no registered worker owns it. Such a worker hung, was swept, and would
-- keep all others from watching for as long as it hangs. It connects again when it continues.
--
-- :watch_class, :watch_key   the watcher's lock
-- :session_class             the class of the workers' session locks
--
-- Returns a row for each session that was ended. PostgreSQL allows that for sessions of the same role, or with
-- pg_signal_backend. Locks nothing.
select pg_terminate_backend(watch.pid)
from pg_locks as watch
where
    watch.locktype = 'advisory'
    and watch.objsubid = 2
    and watch.granted
    and watch.classid = cast(cast(:watch_class as bigint) as oid)
    and watch.objid = cast(cast(:watch_key as bigint) as oid)
    and watch.database = (select oid from pg_database where datname = current_database())
    and watch.pid <> pg_backend_pid()
    and not exists (
        select
        from
            pg_locks as session,
            :schema._private_workers as worker
        where
            session.pid = watch.pid
            and session.locktype = 'advisory'
            and session.objsubid = 2
            and session.classid = cast(cast(:session_class as bigint) as oid)
            and session.database = watch.database
            and worker.metadata -> 'session_key' = to_jsonb(cast(session.objid as bigint))
    );
