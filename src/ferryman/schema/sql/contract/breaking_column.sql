-- Add the column to a ledger that was made beforehand by an old recipe.
alter table :schema.migrations add column breaking boolean not null default false;
