"""Hooks that do not fit their event: mypy refuses an ignore that silences nothing, so each line is a proof."""

from __future__ import annotations

from ferryman.hooks import (
    BeforeJobRun,
    BeforeJobSchedule,
    Continue,
    HookRegistry,
    HookResult,
    JobFail,
    JobRecovery,
    JobScheduleResult,
    Reject,
    Skip,
)

hooks = HookRegistry()


async def report(event: JobFail) -> None: ...


async def check(event: BeforeJobRun) -> Skip | Reject | None:
    return None


def complete(event: BeforeJobSchedule) -> JobScheduleResult:
    return Continue({"to": "a@b.c"})


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
