-- The time of the database, in microseconds, as the tokens of claims are. Locks nothing.
select cast(extract(epoch from now()) * 1000000 as bigint);
