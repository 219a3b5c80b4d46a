"""What is right: a type checker knows what a hook receives and may answer from the event that it is registered for."""

from __future__ import annotations

from typing import assert_type

from ferryman.hooks import (
    BeforeJobRun,
    BeforeJobSchedule,
    Continue,
    HookRegistry,
    HookResult,
    JobFail,
    JobRecovery,
    JobRecoveryResult,
    JobScheduleResult,
    Reject,
    Skip,
)

hooks = HookRegistry()
seen: list[JobFail] = []
hooks.on(JobFail, seen.append)
hooks.on(BeforeJobRun, lambda event: Skip() if event.job.priority > 9 else None)


@hooks.on(JobFail)
async def report(event: JobFail) -> None: ...


@hooks.on(BeforeJobRun)
async def check(event: BeforeJobRun) -> Skip | Reject | None:
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
