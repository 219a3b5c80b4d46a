-- Whether nobody else sweeps this schema; if so, nobody will until this transaction ends. Never waits.
--
-- :idle_seconds   a sweeper that is frozen or cut off half-way says nothing for so long; then the server ends its session.
--                 Otherwise nobody could recover anything until it comes back.
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
