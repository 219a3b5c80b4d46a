-- True if the connection works and still listens: a pooler may have moved it to another server process. Locks nothing.
select exists (
    select from pg_catalog.pg_listening_channels() as channel where channel operator(pg_catalog.=) 'jobs:insert'
);
