"""Signs of life, the sweep that finds dead workers, and what becomes of their jobs."""
