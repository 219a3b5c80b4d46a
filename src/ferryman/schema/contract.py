"""Facts about Graphile Worker's schema that everything here relies on."""

from __future__ import annotations

from ferryman.database.statements import Statement, load_statement

REVISION = 20
"""What a fresh install produces: the schema of graphile-worker 0.18."""
OLDEST_REVISION = 18
"""What graphile-worker 0.16 made; tables and signatures have been the same since."""
BREAKING_REVISIONS = (1, 3, 11, 13, 14, 16, 19)
OLDEST_SERVER = 140000
BODIES = 2
"""The edition of our function bodies: the number in the label of their outermost block."""

TABLES = ("_private_job_queues", "_private_jobs", "_private_known_crontabs", "_private_tasks")
RELATIONS = (
    *TABLES,
    "job_queues_id_seq",
    "job_queues_pkey1",
    "job_queues_queue_name_key",
    "job_spec",
    "jobs",
    "jobs_id_seq1",
    "jobs_key_key1",
    "jobs_main_index",
    "jobs_no_queue_index",
    "jobs_pkey1",
    "known_crontabs_pkey",
    "tasks_id_seq",
    "tasks_identifier_key",
    "tasks_pkey",
)
"""Every name that an install takes among tables, views, indexes, sequences and types, but for the ledger."""
FUNCTIONS = (
    "add_jobs",
    "add_job",
    "complete_jobs",
    "force_unlock_workers",
    "permanently_fail_jobs",
    "remove_job",
    "reschedule_jobs",
)
"""In an order in which they can be created."""


def contract_statement(name: str) -> Statement:
    """One of the files that make up Graphile's objects."""
    return load_statement("ferryman.schema", f"sql/contract/{name}")


def schema_statement(name: str) -> Statement:
    """One of the statements that read or record the state of a schema."""
    return load_statement("ferryman.schema", f"sql/{name}")
