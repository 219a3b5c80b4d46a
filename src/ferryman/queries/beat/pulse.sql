-- Send a heartbeat if one is due, without a look at other workers. Returns one row: whether the worker is still registered,
-- whether it is the watcher, and, with a heartbeat, whether workers of other programs are registered.
-- Locks: the row of this worker, with a heartbeat; the watcher's advisory lock, for as long as the session lasts.
with
-- include: parts/pulse
select self.is_registered, self.has_watch, self.has_foreign from self;
