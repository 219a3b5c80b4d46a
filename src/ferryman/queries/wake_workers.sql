-- Tell idle workers that jobs became due in a way that Graphile's functions do not announce.
select pg_notify('jobs:insert', json_build_object('r', random(), 'count', cast(:count as int))::text);
