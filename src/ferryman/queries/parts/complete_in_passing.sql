-- Part of the claims: delete jobs without a queue that this worker has finished, in passing.
--
-- :done_tokens, :done_job_ids   as in complete_claims.sql, and under the same fence. Unlike there, a row that somebody else
--                               has locked is not waited for. If not all are deleted, those that are come back.
-- :done_count                   how many they are
done as (
    delete from :schema._private_jobs as job
    where
        job.ctid = any (
            array(
                select finished.place
                from
                    unnest(
                        cast(cast(:done_tokens as text) as bigint[]), cast(cast(:done_job_ids as text) as text[])
                    ) as claim (token, job_ids)
                    cross join lateral (
                        select job.ctid as place
                        from :schema._private_jobs as job
                        where
                            job.id = any (cast(claim.job_ids as bigint[]))
                            and job.locked_by = cast(:worker_id as text)
                            and job.locked_at = timestamptz 'epoch' + claim.token * interval '1 microsecond'
                        for update skip locked
                    ) as finished
            )
        )
    returning job.id
),
