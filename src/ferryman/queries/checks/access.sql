-- Which of the queue's tables are there, and whether this role sees their rows. Row security hides rows without an error.
--
-- :name     the name of the schema, unquoted
-- :tables   the names of the tables
--
-- Columns: table, whether this role may read it, whether row security filters its rows, this role, and whether row security
-- hides all of them, because no policy shows any. Locks nothing.
select
    class.relname,
    has_schema_privilege(class.relnamespace, 'usage') and has_table_privilege(class.oid, 'select'),
    row_security_active(class.oid),
    current_user,
    row_security_active(class.oid)
    and not exists (
        select
        from pg_policy as policy
        where
            policy.polrelid = class.oid
            and policy.polpermissive
            and policy.polcmd in ('*', 'r')
            and exists (
                select
                from unnest(policy.polroles) as named (role)
                where named.role = 0 or pg_has_role(named.role, 'usage')
            )
    )
from
    pg_class as class
    join pg_namespace as namespace on namespace.oid = class.relnamespace
where namespace.nspname = cast(:name as text) and class.relname = any (cast(:tables as text[]))
order by class.relname;
