-- Delete records of workers that were declared dead more than :age seconds ago, a batch at a time. Locks: the deleted rows.
delete from :schema._ferryman_lost_workers as lost
where
    lost.worker_id = any (
        array(
            select old.worker_id
            from :schema._ferryman_lost_workers as old
            where old.noticed_at < now() - cast(:age as float8) * interval '1 second'
            order by old.noticed_at
            limit cast(:batch as int)
            for update skip locked
        )
    )
returning lost.worker_id;
