-- The states that workers stored with their heartbeats, newest first, of one worker or of all. Locks nothing.
select
    state.worker_id,
    state.taken_at,
    state.slots,
    state.running,
    state.done,
    state.failed,
    state.rss_bytes,
    state.loop_lag_seconds
from :schema._ferryman_worker_states as state
where cast(:worker_id as text) is null or state.worker_id = cast(:worker_id as text)
order by state.taken_at desc, state.id desc
limit cast(:page_size as int);
