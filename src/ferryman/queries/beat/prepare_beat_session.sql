-- Set up the connection whose session lock shows that the worker's process is there. Locks nothing.
--
-- A statement that waits for a lock must not hold up heartbeats, so statements are limited. The server must notice soon that
-- the worker's machine is gone: its default is two hours, for which it would hold the session lock of a dead worker. A worker
-- that is busy for a while must not lose its session for being idle. Names are looked up as steady_plans.sql says.
--
-- :backend_pid              as in steady_plans.sql: behind a pooler nothing is set
-- :statement_milliseconds   how long a statement may take
--
-- Returns the process that answers now, and the settings or null.
select
    pg_catalog.pg_backend_pid(),
    case when pg_catalog.pg_backend_pid() operator(pg_catalog.=) cast(:backend_pid as int) then array[
        pg_catalog.set_config('statement_timeout', cast(:statement_milliseconds as pg_catalog.text), false),
        pg_catalog.set_config('idle_session_timeout', '0', false),
        pg_catalog.set_config('tcp_keepalives_idle', '5', false),
        pg_catalog.set_config('tcp_keepalives_interval', '3', false),
        pg_catalog.set_config('tcp_keepalives_count', '3', false),
        pg_catalog.set_config('tcp_user_timeout', '15000', false),
        pg_catalog.set_config('jit', 'off', false),
        pg_catalog.set_config('datestyle', 'ISO', false),
        pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', false)
    ] end;
