"""The life of a worker."""
