-- Session settings that keep plans steady and cheap: a plan cached on an almost empty table must not read the whole of a
-- full one, compiling a plan costs more than running it, and so does planning a statement anew for each call.
-- Statements see what was committed before them, whatever a role or database has for a default: under a stricter isolation
-- workers that claim side by side would make each other fail. Times come in the one style that drivers can read.
select
    set_config('jit', 'off', false),
    set_config('enable_seqscan', 'off', false),
    set_config('plan_cache_mode', 'force_generic_plan', false),
    set_config('default_transaction_isolation', 'read committed', false),
    set_config('datestyle', 'ISO', false);
