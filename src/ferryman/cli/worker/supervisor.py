"""Keeps worker processes running: replaces those that die, restarts all when files change, stops them in order."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

from ferryman.cli.early_signals import STOP_SIGNALS
from ferryman.cli.worker.stop_signals import handling
from ferryman.cli.worker.supervised_process import SupervisedProcess
from ferryman.cli.worker.vitals import PULSE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ferryman.cli.worker.plan import Plan
    from ferryman.cli.worker.status_board import StatusBoard
    from ferryman.cli.worker.vitals import Vitals

logger = logging.getLogger("ferryman.cli")

QUICK_DEATH_SECONDS = 10.0
FIRST_PAUSE_SECONDS = 0.2
LONGEST_PAUSE_SECONDS = 20.0
SECONDS_TO_EXIT = 60.0
"""How long after its grace period a process may take to exit before it is killed."""
LOOK_SECONDS = 0.5
"""The time between two looks for changed files."""
_FOREIGN_FOLDERS = {"__pycache__", "node_modules", "site-packages"}


def pause_after(quick_deaths: int) -> float:
    """Return the seconds to wait before a process is replaced, after this many that died soon after their start."""
    if quick_deaths == 0:
        return 0.0
    return min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0 ** min(quick_deaths - 1, 10))


class Supervisor:
    """Keeps one worker process for each of the vitals on the status board.

    The first process starts alone: an error of the application or the database is then reported once.
    """

    def __init__(self, plan: Plan, board: StatusBoard, *, reload: bool) -> None:
        self._plan = plan
        self._board = board
        self._reload = reload
        self._processes: set[SupervisedProcess] = set()
        self._exit_codes: list[int] = []

    def run(self) -> int:
        """Supervise until a stop signal, or until it is clear that no process can start; return the exit code."""
        return asyncio.run(self._supervise())

    async def _supervise(self) -> int:
        self._stopping, self._started, self._changed = asyncio.Event(), asyncio.Event(), asyncio.Event()
        duties = [asyncio.create_task(self._tick(), name="pulse")]
        if self._reload:
            duties.append(asyncio.create_task(self._watch_files(), name="reload"))
        with handling(self._forward):
            await self._keep_all()
        for duty in duties:
            duty.cancel()
        return 0 if all(_is_clean(code) for code in self._exit_codes) else 1

    async def _keep_all(self) -> None:
        first, *others = self._board.everyone
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
                await self._pause(f"could not start a worker process ({error})", pause_after(quick_deaths))
                continue
            self._processes.add(process)
            if self._stopping.is_set():  # the stop began while this process was starting
                process.send(signal.SIGTERM)
            code = await process.watch(vitals, self._pulse)
            self._processes.discard(process)
            vitals.mark_dead()
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
                _log_recycled(process)
                continue
            quick_deaths = quick_deaths + 1 if process.age_seconds < QUICK_DEATH_SECONDS else 0
            await self._pause(f"worker process {process.pid} {_ending(code)}", pause_after(quick_deaths))

    async def _after_failed_start(self, code: int, changed: asyncio.Event) -> None:
        """Wait for a file to change, or stop without --reload. The process itself has reported what is wrong."""
        if self._reload:
            logger.info("waiting for a Python file to change", extra={"event": "waiting_for_change"})
            await _first_of(changed, self._stopping)
        else:
            self._exit_codes.append(code)
            self._stopping.set()

    def _after_once(self, process: SupervisedProcess, code: int) -> None:
        is_early = not process.was_ready  # it did not look for jobs, even if its exit code is 0
        if code != 0 or is_early:
            logger.error(
                "worker process %d %s%s; not replacing it, because of --once",
                process.pid,
                _ending(code),
                " before it was ready" if is_early else "",
                extra={"event": "process_not_replaced"},
            )
        self._exit_codes.append(1 if is_early else code)
        if not self._started.is_set():
            self._stopping.set()

    async def _pause(self, what: str, seconds: float) -> None:
        when = f"in {seconds:g} s" if seconds else "now"
        logger.error("%s; starting a replacement %s", what, when, extra={"event": "process_replaced"})
        if seconds:
            await _first_of(self._stopping, timeout=seconds)

    async def _tick(self) -> None:
        """Refresh the status board even while no process reports, such as in the pause before one is replaced."""
        while True:
            self._board.refresh()
            await asyncio.sleep(PULSE_SECONDS)

    def _pulse(self) -> None:
        if any(vitals.state == "ready" for vitals in self._board.everyone):
            self._started.set()
        self._board.refresh()

    def _forward(self, number: signal.Signals) -> None:
        if not self._stopping.is_set():
            self._stopping.set()
            self._board.announce_stop()
            asyncio.get_running_loop().call_later(self._patience, self._send, signal.SIGKILL)
        self._send(number)

    def _send(self, number: signal.Signals) -> None:
        for process in self._processes:
            process.send(number)

    @property
    def _patience(self) -> float:
        return max(vitals.grace_seconds for vitals in self._board.everyone) + SECONDS_TO_EXIT

    async def _watch_files(self) -> None:
        try:
            folder = Path.cwd()
            files = await asyncio.to_thread(PythonFiles, folder)
            while True:
                await asyncio.sleep(LOOK_SECONDS)
                changed = await asyncio.to_thread(files.changed)
                if changed is not None and not self._stopping.is_set():
                    logger.info("%s changed; restarting", changed.relative_to(folder), extra={"event": "restarting"})
                    self._restart_all()
        except Exception:
            logger.exception(
                "--reload has stopped: cannot look for changed files; restart the command",
                extra={"event": "reload_ended"},
            )

    def _restart_all(self) -> None:
        before, self._changed = self._changed, asyncio.Event()
        before.set()
        for process in self._processes:
            if process.is_dismissed:  # a second signal would cancel its running jobs
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


def _log_recycled(process: SupervisedProcess) -> None:
    logger.info(
        "worker process %d exited as planned, because %s; starting a replacement",
        process.pid,
        process.recycled_because,
        extra={"event": "process_recycled"},
    )


def _is_clean(code: int) -> bool:
    # A process that one of our signals killed before it could handle signals had nothing to lose.
    return code == 0 or -code in STOP_SIGNALS


def _ending(code: int) -> str:
    if code >= 0:
        return f"exited with code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"


class PythonFiles:
    """The Python files below a folder, when each was last written, and how long it is.

    They are found by polling, which needs no dependency and works on every file system. The length is kept because the
    clock of a file system is coarse: a file that is read while it is being written may keep its time.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen = dict(self._look())

    def changed(self) -> Path | None:
        """Return a file that was written, added or removed since the last look; None if there is none."""
        before, self._seen = self._seen, dict(self._look())
        different = before.items() ^ self._seen.items()
        return min((path for path, _ in different), default=None)

    def _look(self) -> Iterator[tuple[Path, tuple[int, int]]]:
        for place, folders, files in os.walk(self._folder):
            folders[:] = [name for name in folders if _may_have_code(Path(place, name))]
            for file in (Path(place, name) for name in files if name.endswith(".py")):
                try:
                    found = file.stat()
                except OSError:  # removed since it was listed
                    continue
                yield file, (found.st_mtime_ns, found.st_size)


def _may_have_code(folder: Path) -> bool:
    # Not Path.exists: it raises in a folder that this user may not enter, such as the data of a database.
    is_environment = os.path.exists(folder / "pyvenv.cfg")  # noqa: PTH110
    return not (folder.name.startswith(".") or folder.name in _FOREIGN_FOLDERS or is_environment)
