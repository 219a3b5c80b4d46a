-- Try to take the lock of sweeps, or of retention, for this schema and this transaction. True if it worked. Never waits.
--
-- :lock_class, :schema_name   the lock
-- :idle_seconds               the longest time between two statements of this transaction. If it is frozen or cut off, the
--                             server then ends its session; otherwise no worker could recover anything until it continues.
with limited as materialized (
    select
        set_config(
            'idle_in_transaction_session_timeout',
            cast(cast(cast(:idle_seconds as float8) * 1000 as int) as text),
            true
        )
)
select pg_try_advisory_xact_lock(cast(:lock_class as int), hashtext(cast(:schema_name as text)))
from limited;
