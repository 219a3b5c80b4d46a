"""By its first job, a worker that nobody asked for more has loaded and asked no more: these take the time."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from ferryman import App
from ferryman.database.sessions import AsyncSession
from tests.support.processes import Program
from tests.support.rhythms import recovery_of
from tests.support.warm import ROOT
from tests.support.workers import worker_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ferryman import SyncClient
    from ferryman.database.steps import Call, Row

UNUSED_BY_A_PLAIN_WORKER = {
    "ferryman.cli": "workers need not be started by the command",
    "ferryman.client.schedules": "for those who change stored schedules",
    "ferryman.cron.builder": "for applications that have schedules",
    "ferryman.cron.parsing": "for crontab text",
    "ferryman.embedded": "for development",
    "ferryman.health": "the doctor's",
    "ferryman.recovery.sweeping": "for workers whose first jobs have begun",
    "ferryman.worker.running.children.serving": "for the child processes of a worker",
    "ferryman.worker.claiming.local_queue": "for workers that claim ahead",
    "asyncpg": "the caller's, if anybody's",
    "click": "the command's",
    "difflib": "for messages about mistakes",
    "django": "the caller's, if anybody's",
    "http": "for probes",
    "multiprocessing": "for tasks that run in processes",
    "pydantic": "the caller's, if anybody's",
    "rich": "the command's",
    "secrets": "for passwords of a private PostgreSQL",
    "sqlalchemy": "the caller's, if anybody's",
    "tomllib": "for pyproject.toml",
    "uvloop": "for those who ask for it",
}
UNUSED_WITHOUT_RECOVERY = {
    "ferryman.recovery.beats": "for workers that register",
    "ferryman.worker.duties.recovery_duty": "for workers that register",
}
UNUSED_BY_AN_IMPORT = {
    "asyncio": "comes with the first name that needs it",
    "dataclasses": "the same",
    "ferryman.app": "the same",
    "msgspec": "the same",
    "psycopg": "the same, and takes the longest",
}


@pytest.mark.program
def test_importing_the_package_loads_nothing_of_it() -> None:
    command = [sys.executable, "-c", "import sys, ferryman; print(*sys.modules)"]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()

    assert "ferryman" in loaded
    assert _loaded_in_vain(loaded, UNUSED_BY_AN_IMPORT | UNUSED_BY_A_PLAIN_WORKER | UNUSED_WITHOUT_RECOVERY) == {}


@pytest.mark.program
@pytest.mark.parametrize(
    ("manner", "unused"),
    [("plain", UNUSED_BY_A_PLAIN_WORKER), ("unregistered", UNUSED_BY_A_PLAIN_WORKER | UNUSED_WITHOUT_RECOVERY)],
    ids=["plain", "unregistered"],
)
def test_a_plain_worker_loads_only_what_it_uses(
    sync_client: SyncClient, database: str, tmp_path: Path, manner: str, unused: dict[str, str]
) -> None:
    sync_client.add_raw_job("tell_modules")
    program = Program(
        "tests.support.programs.plain_worker",
        database,
        manner,
        environment={"PYTHONPATH": str(ROOT)},
        folder=tmp_path,  # without a pyproject.toml
        talks=True,
        fresh=True,
    )
    try:
        assert program.wait() == 0
        loaded = program.lines[0].split()
    finally:
        program.end()

    assert "ferryman.worker.life" in loaded
    assert _loaded_in_vain(loaded, unused) == {}


async def test_a_worker_asks_the_database_no_more_than_it_must_before_its_first_job(
    sync_client: SyncClient, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each question is a round trip, and whoever else asks would take the connection that the claim needs."""
    app, asked, by_then = App(database), list[str](), list[str]()
    ask = AsyncSession._ask

    async def noted(session: AsyncSession, call: Call) -> Sequence[Row]:
        asked.append(call.statement.name)
        return await ask(session, call)

    monkeypatch.setattr(AsyncSession, "_ask", noted)
    worker = worker_of(app, recovery=recovery_of())

    @app.task
    async def tell() -> None:
        by_then.extend(asked)
        worker.request_shutdown()

    sync_client.add_raw_job("tell")
    await worker.run()

    schema = ["read_state", "read_migrations", "read_extensions"]
    assert by_then == [*schema, "register_tasks", "upsert_task_policies", "claim_jobs"]


def _loaded_in_vain(loaded: list[str], unused: dict[str, str]) -> dict[str, str]:
    """Those that should not be there, each with the reason."""
    return {
        name: reason
        for name, reason in unused.items()
        if any(module == name or module.startswith(f"{name}.") for module in loaded)
    }
