-- End the session that holds the watch, if it belongs to no registered worker: a worker that hung was swept, and would keep
-- everybody else from watching for as long as it hangs. It connects again when it wakes up.
--
-- One row comes back for each session that was ended. Only sessions of the same role may be ended, or with
-- pg_signal_backend. Takes no locks.
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
