-- The crontabs that workers bring along, Node's included, as far as the database has heard of them. Nothing is locked.
select known.identifier, known.known_since, known.last_execution
from :schema._private_known_crontabs as known
where not exists (
    select from :schema._ferryman_schedules as schedule where schedule.identifier = known.identifier
)
order by known.identifier;
