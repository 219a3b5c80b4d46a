drop table if exists :schema._ferryman_lost_workers;
