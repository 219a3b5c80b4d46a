from __future__ import annotations

import os
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg import errors
from psycopg.conninfo import make_conninfo

from tests.support.tables import Tables

if TYPE_CHECKING:
    from collections.abc import Iterator

TABLES = "graphile_worker._private_jobs, graphile_worker._private_job_queues, graphile_worker._private_tasks"
PRODUCER = f"producer_{os.getpid()}"
"""Roles are of the whole server, on which other processes of the run test too."""


@pytest.fixture
def producer(database: str) -> Iterator[Tables]:
    """A role that may write to the tables, as the documentation grants it; no sequences are mentioned."""
    with psycopg.connect(database, autocommit=True) as owner:
        owner.execute(f"create role {PRODUCER} login bypassrls password 'known'")
        owner.execute(f"grant usage on schema graphile_worker to {PRODUCER}")
        owner.execute(f"grant select, insert, update on {TABLES} to {PRODUCER}")
        with psycopg.connect(make_conninfo(database, user=PRODUCER, password="known"), autocommit=True) as mine:
            yield Tables(mine)
        owner.execute(f"drop owned by {PRODUCER} cascade")
        owner.execute(f"drop role {PRODUCER}")


def test_a_role_that_bypasses_row_security_can_add_jobs(producer: Tables) -> None:
    producer.add_job(queue_name="q")
    producer.add_job(job_key="k")
    producer.add_job(job_key="k", job_key_mode="unsafe_dedupe")
    assert len(producer.add_jobs({}, {"job_key": "k"}, {"job_key": "l", "queue_name": "p"})) == 3


def test_such_a_role_can_replace_and_remove_jobs_that_run(producer: Tables, connection: psycopg.Connection) -> None:
    worker = Tables(connection)
    replaced, removed = (worker.claim(producer.add_job(job_key=key)["id"])["id"] for key in ("k", "l"))
    producer.add_job(job_key="k")
    producer.remove_job("l")
    assert all("ferryman:superseded" in worker.job(job_id)["flags"] for job_id in (replaced, removed))


def test_a_role_that_does_not_bypass_it_is_refused(producer: Tables, connection: psycopg.Connection) -> None:
    connection.execute(f"alter role {PRODUCER} nobypassrls")
    with pytest.raises(errors.InsufficientPrivilege, match="row-level security"):
        producer.add_job()
