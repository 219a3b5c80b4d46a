case
    when job.locked_at is not null then 'running'
    when job.attempts >= job.max_attempts then 'failed'
    when job.attempts > 0 then 'retrying'
    when job.run_at > now() then 'scheduled'
    else 'ready'
end
