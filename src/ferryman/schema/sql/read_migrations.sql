-- Read Graphile's ledger: the number of each revision, whether it is breaking, and its age in seconds. Locks nothing.
--
-- The rows are read as JSON because the ledgers of the oldest versions lack the column "breaking".
select
    cast(entry.facts ->> 'id' as integer),
    cast(entry.facts ->> 'breaking' as boolean),
    cast(extract(epoch from clock_timestamp() - cast(entry.facts ->> 'ts' as timestamptz)) as double precision)
from (select to_jsonb(migration) as facts from :schema.migrations as migration) as entry
order by 1;
