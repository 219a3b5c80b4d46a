from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING

from ferryman.database.steps import Wait
from ferryman.schema import MigrationOutcome, migrate, status
from tests.support.background import in_background
from tests.support.carrying import carry_out, watched
from tests.support.catalogue import catalogue
from tests.support.processes import migrator, race
from tests.support.waiting import DEADLINE_SECONDS

if TYPE_CHECKING:
    import psycopg
    import pytest

    from ferryman.database.steps import Step


def test_twenty_processes_install_at_once_and_one_of_them_does_the_work(empty_database: str, database: str) -> None:
    outcomes = race([migrator(empty_database) for _ in range(20)])
    assert Counter(outcomes) == {"installed": 1, "nothing": 19}
    assert catalogue(empty_database) == catalogue(database)


def test_an_install_that_somebody_else_finishes_is_adopted(
    connection: psycopg.Connection, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(status, "SETTLING_SECONDS", 3600.0)  # nobody takes over, however long the other one takes
    connection.execute("create temporary table later as select * from graphile_worker.migrations where id > 5")
    connection.execute("delete from graphile_worker.migrations where id > 5")
    connection.execute("update graphile_worker.migrations set ts = now()")
    is_waiting = threading.Event()

    def watch(step: Step) -> None:
        if isinstance(step, Wait):
            is_waiting.set()

    migrating = in_background(database, lambda _: carry_out(database, lambda schema: watched(migrate(schema), watch)))
    assert is_waiting.wait(DEADLINE_SECONDS)
    connection.execute("insert into graphile_worker.migrations select * from later")
    assert migrating.result(DEADLINE_SECONDS).outcome is MigrationOutcome.NOTHING
