-- needs: row job
-- gives: an expression
-- The claim of a job as the mark of a superseded job names it: the same text in every session.
jsonb_build_array(job.locked_by, job.locked_at at time zone 'UTC')
