-- The same for queues; claims, which write to this table too, are held off for as long.
set local lock_timeout = '250ms';
lock table :schema._private_job_queues in share row exclusive mode;
