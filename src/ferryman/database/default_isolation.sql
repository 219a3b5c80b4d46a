-- The isolation of transactions that do not choose one. Behind a pooler no session setting of ours can change it.
select current_setting('default_transaction_isolation');
