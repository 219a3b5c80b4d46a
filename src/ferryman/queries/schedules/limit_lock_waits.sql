-- Let statements of this transaction fail with 55P03 if they wait for a lock longer than :milliseconds. Locks nothing.
select set_config('lock_timeout', cast(cast(:milliseconds as bigint) as text), true);
