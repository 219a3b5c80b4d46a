-- needs: row job
-- gives: a condition
-- True if a locked job must end with this claim: its key was used again or removed, or it was failed for good, since
-- it was claimed. Such a job is never given an attempt back. This is the only place that knows the rule; the stored function
-- recover_dead_worker_jobs includes it too.
--
-- Each of these changes sets the key or the error of a locked job and leaves no attempt. The trigger of extension 8 then
-- writes the claim into the job's flags, in the same transaction, for functions of any program. The mark stands in the row,
-- so a statement that had to wait for the row sees both. It counts for no other claim, and no longer once
-- the job was given attempts again.
-- In a schema without the trigger the clocks decide: the job has neither key nor attempts, and changed after its claim. That
-- is wrong if the clocks of worker and database differ, or if an older transaction made the change.
(
    job.attempts >= job.max_attempts
    and case
        when
            exists (
                select
                from pg_catalog.pg_trigger as installed
                where installed.tgrelid = job.tableoid and installed.tgname = '_ferryman_mark_superseded'
            )
            then job.flags -> 'ferryman:superseded' is not distinct from
                -- include: parts/superseded_claim
        else job.key is null and job.updated_at > job.locked_at
    end
)
