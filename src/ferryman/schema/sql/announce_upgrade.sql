-- Announce a revision. Node workers listen for this, and shut down after a breaking revision.
select pg_notify('worker:migrate', cast(:payload as text));
