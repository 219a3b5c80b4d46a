-- Free queues whose holder is certainly gone and has no job in them; see parts/wedged.sql.
--
-- A queue that changes hands while this statement runs has another ctid or another lock, and is left alone.
-- Locks: the rows of these queues.
with
-- include: parts/wedged
update :schema._private_job_queues as queue
set locked_by = null, locked_at = null
from wedged
where
    queue.ctid = wedged.row_ctid
    and queue.id = wedged.id
    and queue.locked_by is not distinct from wedged.locked_by
    and queue.locked_at is not distinct from wedged.locked_at
    and wedged.fate in ('nobody', 'gone', 'expired')
returning queue.queue_name;
