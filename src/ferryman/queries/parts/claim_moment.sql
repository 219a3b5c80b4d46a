-- needs: nothing
-- gives: moment, shared
-- The moment of a claim, by the caller's clock or the database's. It is the token of every job that this claim takes.
--
-- :now   the caller's clock, or null for the database's
--
-- moment.at          the moment
-- moment.under_way   the ages of the transactions that were under way when this statement began; see parts/is_unmarked.sql
-- moment.youngest    the age of the first transaction that had not begun by then
-- shared.oldest      the age of the oldest multixact that a row of the table may bear; read only if a job seems to be marked
moment as (
    select
        coalesce(cast(:now as timestamptz), now()) as at,
        array(select age(cast(xid as xid)) from pg_snapshot_xip(pg_current_snapshot()) as xid) as under_way,
        age(cast(pg_snapshot_xmax(pg_current_snapshot()) as xid)) as youngest
),
shared as (
    select mxid_age(class.relminmxid) as oldest
    from pg_catalog.pg_class as class
    where class.oid = cast($ferryman$:schema._private_jobs$ferryman$ as regclass)
),
