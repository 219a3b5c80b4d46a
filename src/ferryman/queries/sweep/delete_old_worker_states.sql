-- Delete states of workers that are older than :age seconds, a batch at a time. Locks: the deleted rows.
delete from :schema._ferryman_worker_states as state
where
    state.id = any (
        array(
            select old.id
            from :schema._ferryman_worker_states as old
            where old.taken_at < now() - cast(:age as float8) * interval '1 second'
            order by old.taken_at
            limit cast(:batch as int)
            for update skip locked
        )
    )
returning state.id;
