-- The smallest write that must be committed. Locks nothing that anybody else wants.
insert into :schema.bench_probe (number) values (:number);
