-- Session settings that keep plans steady while the tables grow faster than statistics are gathered: a plan cached
-- on an almost empty table must not read the whole of a full one, and compiling a plan costs more than running it.
select set_config('jit', 'off', false), set_config('enable_seqscan', 'off', false);
