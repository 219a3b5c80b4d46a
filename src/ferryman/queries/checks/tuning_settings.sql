-- Set up the transaction that tunes: it does not wait for a lock for long. Locks nothing.
select set_config('lock_timeout', '2s', true);
