"""Keeps worker processes running: replaces the dead, restarts all when files change, ends them in order."""

from __future__ import annotations

import asyncio
import logging
import signal
from pathlib import Path
from typing import TYPE_CHECKING

from ferryman.cli.beginning import STOP_SIGNALS
from ferryman.cli.worker.processes import SupervisedProcess
from ferryman.cli.worker.reloading import LOOK_SECONDS, Files
from ferryman.cli.worker.signals import heeding
from ferryman.cli.worker.vitals import PULSE_SECONDS

if TYPE_CHECKING:
    from ferryman.cli.worker.plan import Plan
    from ferryman.cli.worker.vitals import Vitals
    from ferryman.cli.worker.watching import Watch

logger = logging.getLogger("ferryman.cli")

QUICK_DEATH_SECONDS = 10.0
FIRST_PAUSE_SECONDS = 0.2
LONGEST_PAUSE_SECONDS = 20.0
SECONDS_TO_END = 60.0
"""How much longer than the grace period a process may take to end before it is killed."""


def pause_after(quick_deaths: int) -> float:
    """The seconds to wait before a process is replaced that died soon after its start, again and again."""
    if quick_deaths == 0:
        return 0.0
    return min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0 ** min(quick_deaths - 1, 10))


class Supervisor:
    """As many worker processes as there are vitals to keep.

    The first one starts alone: what is wrong with the application or the database is then told once.
    """

    def __init__(self, plan: Plan, watch: Watch, *, reload: bool) -> None:
        self._plan = plan
        self._watch = watch
        self._reload = reload
        self._processes: set[SupervisedProcess] = set()
        self._exit_codes: list[int] = []

    def run(self) -> int:
        """Supervise until told to stop, or until it is clear that no process can start; the exit code."""
        return asyncio.run(self._supervise())

    async def _supervise(self) -> int:
        self._stopping, self._started, self._changed = asyncio.Event(), asyncio.Event(), asyncio.Event()
        duties = [asyncio.create_task(self._tick(), name="pulse")]
        if self._reload:
            duties.append(asyncio.create_task(self._watch_files(), name="reload"))
        with heeding(self._forward):
            await self._keep_all()
        for duty in duties:
            duty.cancel()
        return 0 if all(_is_clean(code) for code in self._exit_codes) else 1

    async def _keep_all(self) -> None:
        first, *others = self._watch.everyone
        async with asyncio.TaskGroup() as slots:
            slots.create_task(self._keep(first))
            await _first_of(self._started, self._stopping)
            for vitals in others:
                slots.create_task(self._keep(vitals))

    async def _keep(self, vitals: Vitals) -> None:
        """Keep one process running."""
        quick_deaths = 0
        while not self._stopping.is_set():
            vitals.state = "starting"
            changed = self._changed
            try:
                process = await SupervisedProcess.start(self._plan)
            except OSError as error:
                quick_deaths += 1
                await self._pause(f"no worker process could be started ({error})", pause_after(quick_deaths))
                continue
            self._processes.add(process)
            if self._stopping.is_set():  # it began while we were starting this one
                process.send(signal.SIGTERM)
            code = await process.watch(vitals, self._pulse)
            self._processes.discard(process)
            vitals.die()
            if self._stopping.is_set():
                vitals.state = "stopping"
                self._exit_codes.append(code)
                return
            if process.is_dismissed:
                continue
            if not process.was_ready and code > 0 and (self._reload or not self._started.is_set()):
                await self._after_failed_start(code, changed)
                continue
            if self._plan.once:
                self._after_once(process, code)
                return
            if process.recycled_because is not None and code == 0:
                quick_deaths = 0
                _tell_recycled(process)
                continue
            quick_deaths = quick_deaths + 1 if process.lived_seconds < QUICK_DEATH_SECONDS else 0
            await self._pause(f"worker process {process.pid} {_told(code)}", pause_after(quick_deaths))

    async def _after_failed_start(self, code: int, changed: asyncio.Event) -> None:
        """What is wrong, the process has said. A change may mend it; without --reload there will be none."""
        if self._reload:
            logger.info("waiting for a Python file to change", extra={"event": "waiting_for_change"})
            await _first_of(changed, self._stopping)
        else:
            self._exit_codes.append(code)
            self._stopping.set()

    def _after_once(self, process: SupervisedProcess, code: int) -> None:
        is_early = not process.was_ready  # nothing was looked for, however politely the process ended
        if code != 0 or is_early:
            logger.error(
                "worker process %d %s%s; it is not replaced, because of --once",
                process.pid,
                _told(code),
                " before it was ready" if is_early else "",
                extra={"event": "process_not_replaced"},
            )
        self._exit_codes.append(1 if is_early else code)
        if not self._started.is_set():
            self._stopping.set()

    async def _pause(self, what: str, seconds: float) -> None:
        when = f"in {seconds:g} s" if seconds else "now"
        logger.error("%s; another one starts %s", what, when, extra={"event": "process_replaced"})
        if seconds:
            await _first_of(self._stopping, timeout=seconds)

    async def _tick(self) -> None:
        """Look also while no process tells anything, such as in the pause before a process is replaced."""
        while True:
            self._watch.look()
            await asyncio.sleep(PULSE_SECONDS)

    def _pulse(self) -> None:
        if any(vitals.state == "ready" for vitals in self._watch.everyone):
            self._started.set()
        self._watch.look()

    def _forward(self, number: signal.Signals) -> None:
        if not self._stopping.is_set():
            self._stopping.set()
            self._watch.stop()
            asyncio.get_running_loop().call_later(self._patience, self._send, signal.SIGKILL)
        self._send(number)

    def _send(self, number: signal.Signals) -> None:
        for process in self._processes:
            process.send(number)

    @property
    def _patience(self) -> float:
        return max(vitals.grace_seconds for vitals in self._watch.everyone) + SECONDS_TO_END

    async def _watch_files(self) -> None:
        try:
            folder = Path.cwd()
            files = await asyncio.to_thread(Files, folder)
            while True:
                await asyncio.sleep(LOOK_SECONDS)
                changed = await asyncio.to_thread(files.changed)
                if changed is not None and not self._stopping.is_set():
                    logger.info("%s changed; restarting", changed.relative_to(folder), extra={"event": "restarting"})
                    self._restart_all()
        except Exception:
            logger.exception(
                "changed files are not noticed any more; restart the command", extra={"event": "reload_ended"}
            )

    def _restart_all(self) -> None:
        before, self._changed = self._changed, asyncio.Event()
        before.set()
        for process in self._processes:
            if process.is_dismissed:  # a second signal would cancel the jobs that it finishes
                continue
            process.is_dismissed = True
            process.send(signal.SIGTERM)
            asyncio.get_running_loop().call_later(self._patience, process.send, signal.SIGKILL)


async def _first_of(*events: asyncio.Event, timeout: float | None = None) -> None:  # noqa: ASYNC109 - of asyncio.wait
    waiting = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waiting, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in waiting:
            each.cancel()


def _tell_recycled(process: SupervisedProcess) -> None:
    logger.info(
        "worker process %d ended in order, because %s; starting a replacement",
        process.pid,
        process.recycled_because,
        extra={"event": "process_recycled"},
    )


def _is_clean(code: int) -> bool:
    # A process that a signal of ours met before it could listen had nothing to lose.
    return code == 0 or -code in STOP_SIGNALS


def _told(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"
