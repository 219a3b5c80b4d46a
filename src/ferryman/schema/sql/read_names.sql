-- Return those of these names that a table or a function has. Locks nothing.
select class.relname::text
from pg_catalog.pg_class as class
join pg_catalog.pg_namespace as namespace on namespace.oid = class.relnamespace
where namespace.nspname = cast(:name as text) and class.relname = any(cast(:names as text[]))
union
select function.proname::text
from pg_catalog.pg_proc as function
join pg_catalog.pg_namespace as namespace on namespace.oid = function.pronamespace
where namespace.nspname = cast(:name as text) and function.proname = any(cast(:names as text[]));
