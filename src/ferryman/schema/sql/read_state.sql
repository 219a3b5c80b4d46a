-- Read what the catalogue says about a schema, whether it exists or not. Locks nothing.
--
-- :name                   the name of the schema, unquoted
-- :relations, :functions  the names that matter to Ferryman
select
    cast(current_setting('server_version_num') as integer),
    exists (select from pg_catalog.pg_namespace where nspname = cast(:name as text)),
    array(
        select class.relname::text
        from pg_catalog.pg_class as class
        join pg_catalog.pg_namespace as namespace on namespace.oid = class.relnamespace
        where namespace.nspname = cast(:name as text) and class.relname = any(cast(:relations as text[]))
        union
        select type.typname::text
        from pg_catalog.pg_type as type
        join pg_catalog.pg_namespace as namespace on namespace.oid = type.typnamespace
        where namespace.nspname = cast(:name as text) and type.typname = any(cast(:relations as text[]))
        order by 1
    ),
    array(
        select distinct function.proname::text
        from pg_catalog.pg_proc as function
        join pg_catalog.pg_namespace as namespace on namespace.oid = function.pronamespace
        where namespace.nspname = cast(:name as text) and function.proname = any(cast(:functions as text[]))
        order by 1
    ),
    -- The columns of the ledger that have Graphile's names and types.
    array(
        select attribute.attname::text
        from pg_catalog.pg_attribute as attribute
        join pg_catalog.pg_class as class on class.oid = attribute.attrelid
        join pg_catalog.pg_namespace as namespace on namespace.oid = class.relnamespace
        where
            namespace.nspname = cast(:name as text)
            and class.relname = 'migrations'
            and (attribute.attname, attribute.atttypid::regtype::text) in (
                ('id', 'integer'), ('ts', 'timestamp with time zone'), ('breaking', 'boolean')
            )
        order by 1
    ),
    -- The edition of Ferryman's bodies that both add_job and add_jobs have; zero if one has another program's body.
    (
        select coalesce(min(coalesce(cast(substring(function.prosrc from '<<ferryman_([0-9]+)>>') as integer), 0)), 0)
        from pg_catalog.pg_proc as function
        join pg_catalog.pg_namespace as namespace on namespace.oid = function.pronamespace
        where namespace.nspname = cast(:name as text) and function.proname in ('add_job', 'add_jobs')
    );
