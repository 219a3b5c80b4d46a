-- The isolation of transactions that do not choose one. Behind a pooler no session setting of ours can change it.
select pg_catalog.current_setting('default_transaction_isolation');
