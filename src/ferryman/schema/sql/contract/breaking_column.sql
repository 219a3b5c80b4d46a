-- A ledger that was made beforehand after an old recipe has no such column yet.
alter table :schema.migrations add column breaking boolean not null default false;
