drop table if exists :schema._private_workers;
