listen "jobs:insert";
listen "worker:migrate";
