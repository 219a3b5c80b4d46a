drop table if exists :schema._ferryman_worker_states;
