-- Session settings that keep plans steady and cheap: a plan cached on an almost empty table must not read the whole of a
-- full one, compiling a plan costs more than running it, and so does planning a statement anew for each call.
-- Statements see what was committed before them, even if a role or database has another default: under a stricter
-- isolation workers that claim side by side would make each other fail. Times come in the one style that drivers can read.
--
-- Functions, operators and types are PostgreSQL's own: a better match in a schema that others may write to would run with
-- the rights of this role. What is ours is named with its schema. Temporary objects come first unless they are named.
--
-- :backend_pid   the server process that answered the connection. Where another one answers now, a pooler stands in between
--                and may hand each statement to another process: settings would stay behind there, so nothing is set.
--
-- The process that answers now comes back, and the settings or null. Takes no locks.
select
    pg_catalog.pg_backend_pid(),
    case when pg_catalog.pg_backend_pid() operator(pg_catalog.=) cast(:backend_pid as int) then array[
        pg_catalog.set_config('jit', 'off', false),
        pg_catalog.set_config('enable_seqscan', 'off', false),
        pg_catalog.set_config('plan_cache_mode', 'force_generic_plan', false),
        pg_catalog.set_config('default_transaction_isolation', 'read committed', false),
        pg_catalog.set_config('datestyle', 'ISO', false),
        pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', false)
    ] end;
