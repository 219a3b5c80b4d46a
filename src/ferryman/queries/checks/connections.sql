-- How many clients are connected and how many may be, to the server and to this database. Locks nothing.
--
-- The kind of process may be hidden for sessions of other roles; most of those with a database are clients.
-- The last column is null when the database has no limit of its own.
with client as (
    select session.datname
    from pg_stat_activity as session
    where session.datname is not null and coalesce(session.backend_type, 'client backend') = 'client backend'
)
select
    (select count(*) from client),
    cast(current_setting('max_connections') as integer)
    - cast(current_setting('superuser_reserved_connections') as integer)
    - cast(coalesce(current_setting('reserved_connections', true), '0') as integer),
    (select count(*) from client where client.datname = current_database()),
    (select nullif(datconnlimit, -1) from pg_database where datname = current_database());
