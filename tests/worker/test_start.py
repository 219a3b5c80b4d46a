"""A worker that nobody asked for more has loaded no more by its first job: imports are most of the time until then."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.support.processes import Program
from tests.support.warm import ROOT

if TYPE_CHECKING:
    from pathlib import Path

    from ferryman import SyncClient

UNUSED_BY_A_PLAIN_WORKER = {
    "ferryman.cli": "workers need not be started by the command",
    "ferryman.client.repairing": "the doctor's",
    "ferryman.client.schedules": "for those who change stored schedules",
    "ferryman.cron.builder": "for applications that have schedules",
    "ferryman.cron.parsing": "for crontab text",
    "ferryman.embedded": "for development",
    "ferryman.health": "the doctor's",
    "ferryman.worker.children.starting": "for tasks that run in processes",
    "ferryman.worker.local_queue": "for workers that claim ahead",
    "asyncpg": "the caller's, if anybody's",
    "click": "the command's",
    "difflib": "for messages about mistakes",
    "django": "the caller's, if anybody's",
    "http": "for probes",
    "multiprocessing": "for tasks that run in processes",
    "pydantic": "the caller's, if anybody's",
    "rich": "the command's",
    "sqlalchemy": "the caller's, if anybody's",
    "tomllib": "for pyproject.toml",
    "uvloop": "for those who ask for it",
}
UNUSED_WITHOUT_RECOVERY = {
    "ferryman.recovery.beats": "for workers that register, and so is all that sweeps",
    "ferryman.recovery.sweeping": "the same",
    "ferryman.worker.recovering": "for workers that register",
    "secrets": "for passwords of a private PostgreSQL, and session locks",
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


def _loaded_in_vain(loaded: list[str], unused: dict[str, str]) -> dict[str, str]:
    """Those that should not be there, each with the reason."""
    return {
        name: reason
        for name, reason in unused.items()
        if any(module == name or module.startswith(f"{name}.") for module in loaded)
    }
