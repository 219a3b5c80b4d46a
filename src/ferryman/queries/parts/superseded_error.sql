-- needs: nothing
-- gives: an expression
-- The error of a superseded job that has none. The job counts as failed, and people who look at it want to know why.
'Superseded: its key was used again or removed while it was claimed'
