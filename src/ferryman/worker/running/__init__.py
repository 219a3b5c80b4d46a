"""How a worker runs its jobs: slots, attempts, handlers on the loop, in threads and in child processes."""
