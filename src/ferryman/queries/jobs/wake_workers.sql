-- Notify idle workers of jobs that became due in a way that Graphile's functions do not announce.
select pg_catalog.pg_notify(
    'jobs:insert',
    pg_catalog.json_build_object('r', pg_catalog.random(), 'count', cast(:count as int))::pg_catalog.text
);
