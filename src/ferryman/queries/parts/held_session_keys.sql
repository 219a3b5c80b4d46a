-- needs: nothing
-- gives: a query
-- The session keys whose locks are held in this database, as JSON, to be compared with what workers say in their metadata.
-- Other workers may write anything there.
--
-- :session_class   the class of the workers' session locks
select to_jsonb(cast(session.objid as bigint))
from pg_locks as session
where
    session.locktype = 'advisory'
    and session.objsubid = 2
    and session.classid = cast(cast(:session_class as bigint) as oid)
    and session.database = (select oid from pg_database where datname = current_database())
