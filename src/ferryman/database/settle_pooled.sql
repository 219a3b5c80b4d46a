-- The settings of begin_pooled.sql for one statement that follows in the same round trip.
select
    pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true),
    pg_catalog.set_config('datestyle', 'ISO', true);
