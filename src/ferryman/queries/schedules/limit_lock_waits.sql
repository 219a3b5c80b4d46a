-- Let no statement of this transaction wait for a lock any longer than :milliseconds; it fails with 55P03 then.
select set_config('lock_timeout', cast(cast(:milliseconds as bigint) as text), true);
