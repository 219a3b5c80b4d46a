-- Begin a transaction behind a pooler, whose sessions serve others next: every setting ends with the transaction.
--
-- Statements see what was committed before them, even if a role or database has another default. Names are looked for
-- among PostgreSQL's own, see steady_plans.sql. Times come in the one style that drivers can read.
begin isolation level read committed;
set local search_path = pg_catalog, pg_temp;
set local datestyle = 'ISO';
