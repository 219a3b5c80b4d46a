-- The version of the server, and whether it only repeats what another one does. Locks nothing.
select cast(current_setting('server_version_num') as integer), pg_is_in_recovery();
