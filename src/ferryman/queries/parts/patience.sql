-- needs: nothing
-- gives: patience
-- How long a settlement waits for a row that another session has locked.
--
-- :patience   as PostgreSQL writes it, such as '100ms'. After that the statement fails (55P03) and has changed nothing. null
--             waits without a limit: in a transaction that is not ours, the setting would stay.
--
-- A statement that holds rows and waits for others can be part of a deadlock, and the victim may be the transaction of an
-- application that adds jobs by their keys. PostgreSQL looks for deadlocks after a second (deadlock_timeout); this statement
-- has failed by then.
patience as materialized (
    select
        case
            when cast(:patience as pg_catalog.text) is null then true
            else pg_catalog.set_config('lock_timeout', cast(:patience as pg_catalog.text), true) is not null
        end as is_set
),
