-- Make the schema of a run. Without "if not exists": what is there already is not ours, and must not be dropped later.
create schema :schema;
