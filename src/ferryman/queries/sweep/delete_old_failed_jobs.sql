-- Delete jobs that failed for good more than :age seconds ago, of tasks that Ferryman workers have registered, a batch at a
-- time in the order of their ids. Other programs may need the jobs of their tasks: `ferryman doctor` names them.
--
-- :after   the last id of the batch before, so that all batches together read the table once
--
-- Reads all jobs from there on, because no index helps. Locks: the deleted rows. A job that another session reschedules at
-- the same moment is checked again and stays; one that is locked is left for a later run.
delete from :schema._private_jobs as done
where
    done.id = any (
        array(
            select job.id
            from :schema._private_jobs as job
            where
                job.id > cast(:after as bigint)
                and job.attempts >= job.max_attempts
                and job.locked_at is null
                and
                -- include: parts/failed_at
                < now() - cast(:age as float8) * interval '1 second'
                and job.task_id = any (
                    array(
                        select known.id
                        from :schema._private_tasks as known
                        where
                            known.identifier in (
                                -- include: parts/own_tasks
                            )
                    )
                )
            order by job.id
            limit cast(:batch as int)
            for update skip locked
        )
    )
returning done.id;
