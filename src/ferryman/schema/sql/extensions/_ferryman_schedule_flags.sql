-- The flags that the jobs of a schedule get. Locks: the table of schedules, for a moment; no row is rewritten.
alter table :schema._ferryman_schedules add column if not exists flags text[];
