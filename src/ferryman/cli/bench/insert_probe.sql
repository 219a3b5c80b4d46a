-- The smallest write that must be committed. Locks nothing that another session uses.
insert into :schema.bench_probe (number) values (:number);
