-- The crontabs that workers have registered, Node's included, as far as the database knows them. Locks nothing.
select
    known.identifier,
    least(greatest(known.known_since, pg_catalog.timestamptz '0001-01-03 00:00Z'), pg_catalog.timestamptz '9999-12-30 00:00Z'),
    case when known.last_execution is not null
        then least(greatest(known.last_execution, pg_catalog.timestamptz '0001-01-03 00:00Z'), pg_catalog.timestamptz '9999-12-30 00:00Z')
    end
from :schema._private_known_crontabs as known
where not exists (
    select from :schema._ferryman_schedules as schedule where schedule.identifier operator(pg_catalog.=) known.identifier
)
order by known.identifier;
