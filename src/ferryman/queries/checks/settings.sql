-- Set up the transaction of one check: it changes nothing, waits for no lock for long, and may read whole tables.
-- Locks nothing.
select
    set_config('transaction_read_only', 'on', true),
    set_config('lock_timeout', '2s', true),
    set_config('statement_timeout', '60s', true),
    set_config('enable_seqscan', 'on', true),
    set_config('plan_cache_mode', 'force_custom_plan', true);
