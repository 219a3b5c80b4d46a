-- Hold a session lock that ends with this connection, however that ends; false when somebody else holds it.
-- Locks: one advisory lock, for as long as the session lasts.
select pg_try_advisory_lock(cast(:class as int), cast(:key as int));
