"""Heartbeats, the sweep that finds dead workers, and the recovery of their jobs."""
