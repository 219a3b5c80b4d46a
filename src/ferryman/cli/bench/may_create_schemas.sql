-- This role, its database, and whether the role may create a schema there. Locks nothing.
select current_user, current_database(), has_database_privilege(current_database(), 'create');
