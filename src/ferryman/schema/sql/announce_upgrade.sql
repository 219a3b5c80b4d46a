-- Node workers listen for this; after a breaking step they shut down.
select pg_notify('worker:migrate', cast(:payload as text));
