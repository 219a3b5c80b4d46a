-- Who we are, where, and whether we may make a schema there. Locks nothing.
select current_user, current_database(), has_database_privilege(current_database(), 'create');
