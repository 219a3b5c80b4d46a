-- needs: nothing
-- gives: done
-- Delete finished jobs without a queue along with the claim, which saves a round trip and a commit.
--
-- :done_tokens, :done_job_ids   array literals as in complete_claims.sql: finished claims of :worker_id
-- :done_count                   how many they are
--
-- done.id has the jobs that were deleted. A row that another session has locked is skipped, unlike in complete_claims.sql;
-- the caller then writes that completion by itself.
-- Locks: the rows of these jobs, without waiting.
done as (
    delete from :schema._private_jobs as job
    where
        job.ctid = any (
            array(
                select finished.row_ctid
                from
                    unnest(
                        cast(cast(:done_tokens as text) as bigint[]), cast(cast(:done_job_ids as text) as text[])
                    ) as claim (token, job_ids)
                    cross join lateral (
                        select job.ctid as row_ctid
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
