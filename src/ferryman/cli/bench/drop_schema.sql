-- Drop the schema that this run has made, with all that is in it. Locks nothing outside of it.
drop schema if exists :schema cascade;
