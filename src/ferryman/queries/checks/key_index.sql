-- The index of job keys: whether it is there, whose it is, and whether it stores equal entries once.
--
-- :name   the name of the schema, unquoted
--
-- No row comes back without the table of jobs. Columns: whether the index is there, this role, the owner, whether this
-- role may alter the index, whether it deduplicates (PostgreSQL's default), and its size in bytes. Locks nothing.
select
    index.oid is not null,
    cast(current_user as text),
    cast(pg_get_userbyid(index.relowner) as text),
    pg_has_role(index.relowner, 'usage'),
    coalesce(
        (
            select cast(option.option_value as boolean)
            from pg_options_to_table(index.reloptions) as option
            where option.option_name = 'deduplicate_items'
        ),
        true
    ),
    coalesce(pg_relation_size(index.oid), 0)
from
    pg_class as class
    join pg_namespace as namespace on namespace.oid = class.relnamespace
    left join (pg_index as entry join pg_class as index on index.oid = entry.indexrelid)
        on entry.indrelid = class.oid and index.relname = 'jobs_key_key1'
where namespace.nspname = cast(:name as text) and class.relname = '_private_jobs';
