-- The database's time in microseconds, the form that the tokens of claims have. Locks nothing.
select cast(extract(epoch from now()) * 1000000 as bigint);
