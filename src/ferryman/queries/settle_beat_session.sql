-- Session settings of a connection that stands for a worker's life. Takes no locks.
--
-- A statement that waits for somebody's lock must not keep the beats from going on. The server itself shall notice that
-- the worker's machine is gone: its default is two hours, for which it would hold the session lock of a dead worker. And
-- a worker that is busy for a while must not lose its session for being idle.
select
    set_config('statement_timeout', cast(:statement_milliseconds as text), false),
    set_config('idle_session_timeout', '0', false),
    set_config('tcp_keepalives_idle', '5', false),
    set_config('tcp_keepalives_interval', '3', false),
    set_config('tcp_keepalives_count', '3', false),
    set_config('tcp_user_timeout', '15000', false),
    set_config('jit', 'off', false),
    set_config('datestyle', 'ISO', false);
