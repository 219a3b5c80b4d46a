-- Let the index of job keys store each entry by itself. Jobs without a key all have the same entry, null, and with
-- deduplication, PostgreSQL's default, each page of the index is packed again and again while jobs are claimed.
--
-- This concerns what is inserted from now on; entries that are stored together stay so until their jobs are gone. A
-- `reindex` gains nothing: it was measured to claim no faster, and it waits for every transaction of the database.
--
-- Locks: the index, in share update exclusive mode, until the transaction ends. Sessions that read or write jobs do not
-- wait; `reindex`, `vacuum` and `analyze` of the table may wait for that moment, and this statement for a `reindex`.
alter index :schema.jobs_key_key1 set (deduplicate_items = off);
