-- Both that the connection is alive and that it still listens: a pooler may have moved us to another server process.
select exists (
    select from pg_catalog.pg_listening_channels() as channel where channel operator(pg_catalog.=) 'jobs:insert'
);
