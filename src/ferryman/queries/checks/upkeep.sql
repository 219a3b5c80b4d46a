-- How many rows of the busiest tables are dead, by PostgreSQL's own estimate, and whether a vacuum removes them.
--
-- :name     the name of the schema, unquoted
-- :tables   the names of the tables
--
-- Columns: table, live rows, dead rows, seconds since the last vacuum of either kind (null for never), whether autovacuum
-- is on for the server, and for the table, and the seconds between two of its rounds. Locks nothing.
select
    cast(class.relname as text),
    pg_stat_get_live_tuples(class.oid),
    pg_stat_get_dead_tuples(class.oid),
    cast(
        extract(
            epoch from now()
            - greatest(pg_stat_get_last_vacuum_time(class.oid), pg_stat_get_last_autovacuum_time(class.oid))
        ) as float8
    ),
    cast(current_setting('autovacuum') as boolean) and cast(current_setting('track_counts') as boolean),
    coalesce(
        (
            select cast(option.option_value as boolean)
            from pg_options_to_table(class.reloptions) as option
            where option.option_name = 'autovacuum_enabled'
        ),
        true
    ),
    (select cast(setting as float8) from pg_settings where name = 'autovacuum_naptime')
from
    pg_class as class
    join pg_namespace as namespace on namespace.oid = class.relnamespace
where namespace.nspname = cast(:name as text) and class.relname = any (cast(:tables as text[]))
order by class.relname;
