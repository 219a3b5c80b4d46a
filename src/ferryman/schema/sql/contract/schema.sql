-- Only where the schema is absent: PostgreSQL asks for the right to create schemas even when there is nothing to do.
create schema :schema;
