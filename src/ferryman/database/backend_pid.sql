-- The server process behind this connection. Where it differs from the one that answered the connection, a pooler
-- stands in between and may hand each statement to another process.
select pg_catalog.pg_backend_pid();
