-- Lock the next jobs that these workers hold, in the order of their ids, and return them.
--
-- Locks: the rows of these jobs, so that what is read of them next stays true. Rows that another session has locked are left
-- for a later sweep: their owner may be settling them.
select job.id
from :schema._private_jobs as job
where job.locked_by = any (cast(:worker_ids as text[])) and job.id > cast(:after as bigint)
order by job.id
limit cast(:batch as int)
for update skip locked;
