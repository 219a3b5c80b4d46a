-- Whether `job`, which is locked, must end with this claim, because its key was used again or removed, or somebody failed it
-- for good, since it was claimed. It is never given an attempt back. The only place that knows the rule.
--
-- Whoever does one of these things sets the key or the error of a locked job, and leaves no attempt. The trigger of
-- extension 8 then writes the claim into the flags of the job, in the same transaction and whoever wrote the function. The
-- mark stands in the row, so that a statement which had to wait for the row sees it with the row. It counts for no other
-- claim, and not when somebody has given the job attempts again.
-- A schema without the trigger says it by its clocks: the job has neither key nor attempts, and changed after its claim.
-- That is wrong when the clocks of worker and database differ, or when the change was made by an older transaction.
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
