"""Jobs of plain functions that use Django's connections."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import django
import django.db
import psycopg
import pytest
from django.conf import settings
from django.db import connections
from psycopg.conninfo import conninfo_to_dict

from ferryman import App, JobSpec
from ferryman.worker.running import forks
from ferryman.worker.running.children.messages import ChildSuccess
from ferryman.worker.running.children.orders import ChildOrder
from ferryman.worker.running.children.serving import run_task
from ferryman.worker.running.django_connections import with_usable_connections
from tests.support.workers import jobs, run_all
from tests.worker import process_tasks

if TYPE_CHECKING:
    from pathlib import Path

    from ferryman import Client


@pytest.fixture
def alias(database: str) -> str:
    """A Django connection to the database of the test."""
    if not settings.configured:
        settings.configure(USE_TZ=True, DATABASES={})
        django.setup()
    parts = conninfo_to_dict(database)
    given = {key.upper(): parts[key] for key in ("user", "password", "host", "port")}
    given |= {"ENGINE": "django.db.backends.postgresql", "NAME": parts["dbname"]}
    connections.databases["lost"] = connections.configure_settings({"default": given})["default"]
    return "lost"


async def test_after_a_connection_was_lost_the_next_job_of_the_thread_gets_a_new_one(
    app: App, client: Client, connection: psycopg.Connection, database: str, alias: str
) -> None:
    ran = []

    @app.task(queue_name="one by one", max_attempts=1)
    def look(cut: bool) -> None:
        with connections[alias].cursor() as cursor:
            cursor.execute("select pg_backend_pid()")
            if cut:
                with psycopg.connect(database) as other:
                    other.execute("select pg_terminate_backend(%s, 60000)", cursor.fetchone())
                cursor.execute("select 1")
        ran.append(cut)

    await client.add_jobs([look.job(cut=False), look.job(cut=True), look.job(cut=False)])
    await run_all(app, concurrency=1)

    assert ran == [False, False]
    assert len(jobs(connection)) == 1


async def test_child_processes_close_old_connections_around_a_job_too(
    client: Client, alias: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    note = tmp_path / "note"
    seen: list[bool] = []
    monkeypatch.setattr(django.db, "close_old_connections", lambda: seen.append(note.exists()))
    job = await client.add_raw_job("note", {"path": str(note)}, JobSpec())

    result = run_task(
        process_tasks.note, ChildOrder.of(process_tasks.note, job, "w"), cast("Any", None), cast("Any", None)
    )

    assert isinstance(result, ChildSuccess)
    assert seen == [False, True]


def test_a_process_that_a_handler_has_forked_leaves_the_connections_of_its_parent_alone(
    alias: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To close one would tell the server over the socket of the parent that the parent's session is over."""
    closed: list[int] = []
    monkeypatch.setattr(django.db, "close_old_connections", lambda: closed.append(forks.generation()))
    monkeypatch.setattr(forks, "_generation", 0)

    with_usable_connections(forks._was_forked)

    assert closed == [0]
