-- How many jobs there are, and how many of them have no key. Reads all jobs. Locks nothing.
select count(*), count(*) filter (where job.key is null)
from :schema._private_jobs as job;
