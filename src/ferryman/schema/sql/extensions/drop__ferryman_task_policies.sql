drop table if exists :schema._ferryman_task_policies;
