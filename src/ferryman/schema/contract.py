"""What Ferryman relies on in Graphile Worker's schema: its revisions, and the names of its objects."""

from __future__ import annotations

from ferryman.database.statements import Statement, load_statement

REVISION = 20
"""The revision of a fresh install: the schema of graphile-worker 0.18."""
OLDEST_REVISION = 18
"""The oldest revision that Ferryman can use, that of graphile-worker 0.16. Tables and signatures are the same since."""
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
"""Every table, view, index, sequence and type that an install makes, but for the ledger."""
FUNCTIONS = (
    "add_jobs",
    "add_job",
    "complete_jobs",
    "force_unlock_workers",
    "permanently_fail_jobs",
    "remove_job",
    "reschedule_jobs",
)
"""The functions, in an order in which they can be created."""


def contract_statement(name: str) -> Statement:
    """Load a file of `sql/contract`, which makes a part of Graphile's schema."""
    return load_statement("ferryman.schema", f"sql/contract/{name}")


def schema_statement(name: str) -> Statement:
    """Load a file of `sql`, which reads or records the state of a schema."""
    return load_statement("ferryman.schema", f"sql/{name}")
