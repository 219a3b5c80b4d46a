drop table :schema._ferryman_migrations;
