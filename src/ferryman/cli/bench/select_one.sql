-- The smallest question there is: what it takes is the way there and back.
select 1;
