drop table if exists :schema._ferryman_schedules;
