"""`ferryman worker`: one process that runs jobs, or a supervisor and several."""
