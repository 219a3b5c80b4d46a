-- needs: row job
-- gives: an expression
-- The state of a job; `JobState` has the same words.
case
    when job.locked_at is not null then 'running'
    when job.attempts operator(pg_catalog.>=) job.max_attempts then 'failed'
    when job.attempts operator(pg_catalog.>) 0 then 'retrying'
    when job.run_at operator(pg_catalog.>) pg_catalog.now() then 'scheduled'
    else 'ready'
end
