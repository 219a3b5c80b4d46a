alter table if exists :schema._ferryman_schedules drop column if exists flags;
