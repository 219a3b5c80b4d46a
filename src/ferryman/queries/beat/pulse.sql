-- A sign of life of a worker that has nothing to look at. One row comes back: whether it is still registered, whether the
-- watch is its own, and, with a beat, whether workers of other programs are registered.
-- Locks: the row of this worker, if it beats; the advisory lock of the watch, for as long as the session lasts.
with
-- include: parts/pulse
select self.is_registered, self.has_watch, self.has_foreign from self;
