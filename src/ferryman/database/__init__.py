"""Speaks to PostgreSQL: addresses, connections, statements, and the steps of an operation."""
