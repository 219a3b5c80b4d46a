-- Subscribe this session to the notifications of new jobs and of migrations. Takes no locks that matter.
listen "jobs:insert";
listen "worker:migrate";
