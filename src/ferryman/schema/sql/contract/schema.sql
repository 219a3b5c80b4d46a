-- Made only if it is absent: PostgreSQL asks for the right to create schemas even if the schema exists.
create schema :schema;
