-- The version of the server, and whether it is a standby. Locks nothing.
select cast(current_setting('server_version_num') as integer), pg_is_in_recovery();
