-- How many ids of tasks, queues and jobs are used up, by their sequences. Locks nothing.
--
-- :name   the name of the schema, unquoted
--
-- Columns: table, sequence, the last number that it can give, the last one given (null for none), whether this role may
-- know, and the sequence as SQL names it.
select
    cast(class.relname as text),
    cast(sequence.sequencename as text),
    sequence.max_value,
    sequence.last_value,
    has_sequence_privilege(owned.oid, 'usage, select'),
    format('%I.%I', sequence.schemaname, sequence.sequencename)
from
    pg_class as class
    join pg_namespace as namespace on namespace.oid = class.relnamespace
    join pg_depend as link
        on link.refclassid = cast('pg_class' as regclass) and link.refobjid = class.oid and link.deptype in ('a', 'i')
    join pg_class as owned
        on link.classid = cast('pg_class' as regclass) and owned.oid = link.objid and owned.relkind = 'S'
    join pg_sequences as sequence
        on sequence.schemaname = namespace.nspname and sequence.sequencename = owned.relname
where
    namespace.nspname = cast(:name as text)
    and class.relname in ('_private_tasks', '_private_job_queues', '_private_jobs')
order by class.relname;
