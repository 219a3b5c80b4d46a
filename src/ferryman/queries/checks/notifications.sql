-- How full the queue of notifications is, from 0 to 1, for all databases together. Locks nothing.
select pg_notification_queue_usage();
