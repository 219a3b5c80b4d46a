-- The smallest query. Its time is that of one round trip.
select 1;
