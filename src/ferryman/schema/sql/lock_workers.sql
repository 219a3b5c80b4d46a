-- Nobody registers, beats or sweeps until this transaction ends.
-- Locks: the table of workers, against everybody. Whoever asks for such a lock holds up all who come after, heartbeats
-- included: so not for longer than a tenth of a second, and the change is tried again later.
set local lock_timeout = '100ms';
lock table :schema._private_workers in access exclusive mode;
