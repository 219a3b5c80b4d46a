-- Let the index of job keys store equal entries once, as Graphile Worker made it. The storage parameter is removed, so
-- that nothing in the catalogue differs from a schema that was never tuned.
--
-- Pages are packed as new entries come, and pages that become empty are used again: the index does not shrink by itself.
-- A `reindex` does not help, because PostgreSQL builds unique indexes without deduplication.
--
-- Locks: as tune_key_index.sql.
alter index :schema.jobs_key_key1 reset (deduplicate_items);
