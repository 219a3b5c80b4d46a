-- Make crontabs known. From :since on, minutes that no worker was there for can be made up for.
-- Locks: nothing that others wait for. A crontab that is known already stays as it is.
insert into :schema._private_known_crontabs (identifier, known_since)
select own.identifier, cast(:since as timestamptz)
from unnest(cast(:identifiers as text[])) as own (identifier)
order by own.identifier
on conflict (identifier) do nothing;
