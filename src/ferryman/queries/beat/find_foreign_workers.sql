-- Registered workers that store no heartbeat interval: those of other programs, such as Rust's. Locks nothing.
select worker.id
from :schema._private_workers as worker
where jsonb_typeof(worker.metadata -> 'beat_interval') is distinct from 'number'
order by worker.id
limit 10;
