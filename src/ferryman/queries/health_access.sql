-- Which of the queue's tables are there, and whether this role sees their rows. Row security hides rows without an error.
--
-- :name     the name of the schema, unquoted
-- :tables   the names of the tables
--
-- Locks nothing.
select
    class.relname,
    has_schema_privilege(class.relnamespace, 'usage') and has_table_privilege(class.oid, 'select'),
    row_security_active(class.oid),
    current_user
from
    pg_class as class
    join pg_namespace as namespace on namespace.oid = class.relnamespace
where namespace.nspname = cast(:name as text) and class.relname = any (cast(:tables as text[]))
order by class.relname;
