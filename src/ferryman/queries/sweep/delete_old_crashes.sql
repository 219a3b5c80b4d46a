-- Delete crashes that are older than :age seconds, a batch at a time. Locks: the deleted rows.
delete from :schema._ferryman_crashes as crash
where
    crash.id = any (
        array(
            select old.id
            from :schema._ferryman_crashes as old
            where old.noticed_at < now() - cast(:age as float8) * interval '1 second'
            order by old.noticed_at
            limit cast(:batch as int)
            for update skip locked
        )
    )
returning crash.id;
