"""A type checker knows what a hook receives and what it may answer, from the event that it is registered for."""

import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]

RIGHT = """
from typing import Any, assert_type
from ferryman.hooks import (
    BeforeJobRun, BeforeJobSchedule, Continue, Fail, HookRegistry, HookResult, JobFail, JobRecovery, JobRecoveryResult,
    JobScheduleResult, Skip,
)

hooks = HookRegistry()
seen: list[JobFail] = []
hooks.on(JobFail, seen.append)
hooks.on(BeforeJobRun, lambda event: Skip() if event.job.priority > 9 else None)

@hooks.on(JobFail)
async def report(event: JobFail) -> None: ...

@hooks.on(BeforeJobRun)
async def check(event: BeforeJobRun) -> Skip | Fail | None:
    return None

@hooks.on(BeforeJobRun)
def check_too(event: BeforeJobRun) -> HookResult:
    return Continue()

@hooks.on(BeforeJobSchedule)
def complete(event: BeforeJobSchedule) -> JobScheduleResult:
    return Continue({"to": "a@b.c"})

@hooks.on(JobRecovery)
async def recover(event: JobRecovery) -> JobRecoveryResult:
    return JobRecoveryResult.Skip()

hooks.on(JobFail, report)
hooks.on(BeforeJobRun, check)
hooks.on(JobRecovery, recover)

async def ask(fail: JobFail, run: BeforeJobRun, recovery: JobRecovery, schedule: BeforeJobSchedule) -> None:
    await report(fail)
    await check(run)
    assert_type(await hooks.intercept(run), HookResult)
    assert_type(await hooks.intercept(recovery), JobRecoveryResult)
    assert_type(hooks.intercept_blocking(schedule), JobScheduleResult)
    match await hooks.intercept(recovery):
        case JobRecoveryResult.Reschedule(attempts=attempts):
            assert_type(attempts, int | None)
"""

WRONG = """
hooks.on(BeforeJobRun, report)  # type: ignore[arg-type]
hooks.on(JobFail, check)  # type: ignore[arg-type]
hooks.on(JobRecovery, complete)  # type: ignore[arg-type]
hooks.on(JobRecovery)(complete)  # type: ignore[arg-type]
hooks.on(BeforeJobRun, lambda event: Continue({"to": "a@b.c"}))  # type: ignore[arg-type]

def forgets_to_call(event: BeforeJobRun) -> HookResult:
    return Skip  # type: ignore[return-value]

async def mixes_kinds(fail: JobFail, run: BeforeJobRun) -> None:
    await hooks.emit(run)  # type: ignore[arg-type]
    await hooks.intercept(fail)  # type: ignore[arg-type]
"""


def test_mypy_accepts_what_is_right_and_finds_every_mistake(tmp_path: Path) -> None:
    """In strict mode an ignore without an error is itself an error, so every marked line is one that mypy refuses."""
    pytest.importorskip("mypy")
    file = tmp_path / "example.py"
    file.write_text(RIGHT + WRONG)

    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", str(file)], cwd=PROJECT, capture_output=True, text=True, check=False
    )

    assert "type: ignore" not in RIGHT
    assert checked.returncode == 0, checked.stdout + checked.stderr
