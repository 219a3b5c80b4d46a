-- Part of the claims: when it is, by the caller's clock or the database's. The token of a claim is this moment.
--
-- under_way   the ages of the transactions that were under way when this statement began; see parts/is_unmarked.sql
-- youngest    the age of the first that had not begun by then
-- shared      looked at only when a job seems to be marked: the age of the oldest multixact that its row may bear
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
