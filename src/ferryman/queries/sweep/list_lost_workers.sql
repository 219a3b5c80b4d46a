-- The records of workers that were declared dead, newest first. Locks nothing.
select
    lost.worker_id,
    lost.started_at,
    lost.last_heartbeat_at,
    lost.noticed_at,
    lost.reason,
    cast(lost.metadata as text),
    lost.recovered_jobs
from :schema._ferryman_lost_workers as lost
order by lost.noticed_at desc, lost.worker_id
limit cast(:page_size as int);
