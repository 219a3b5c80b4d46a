-- Take a session lock, which PostgreSQL releases when this connection ends, however it ends. False if another session has it.
-- Locks: one advisory lock, for as long as the session lasts.
select pg_try_advisory_lock(cast(:class as int), cast(:key as int));
