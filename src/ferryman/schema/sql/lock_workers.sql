-- Keep workers from registering, sending heartbeats and sweeping until this transaction ends.
--
-- Locks: the table of workers, against everything. While it waits for the lock, all later statements wait behind it,
-- heartbeats included: so it waits a tenth of a second at most, and the change is tried again later.
set local lock_timeout = '100ms';
lock table :schema._private_workers in access exclusive mode;
