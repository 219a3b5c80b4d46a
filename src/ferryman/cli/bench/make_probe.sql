-- A table for small commits, inside the schema of the run.
create table :schema.bench_probe (number integer not null);
