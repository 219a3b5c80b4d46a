-- Do as lock_tasks.sql does, for queues. Claims write to this table too, so they wait as well.
set local lock_timeout = '250ms';
lock table :schema._private_job_queues in share row exclusive mode;
