-- How many sessions this role may not look into. Locks nothing.
select count(*) from pg_stat_activity as session where session.query = '<insufficient privilege>';
