"""The second act of the demo: three worker processes, schedules, and what happens when workers die."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from fleet_tasks import RECOVERY
from history import History
from rich.progress import Progress
from stage import Stage, wait_until

from ferryman import JobSpec, RawJobSpec, WorkerRecoveryConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ferryman.recovery.config import RecoverySettings

FLEET = 3
KNOWN_FOR_AN_HOUR = """insert into graphile_worker._private_known_crontabs (identifier, known_since)
values ('chime', now() - interval '1 hour')"""
SCHEDULES = """@app.cron("* * * * *", fill=CrontabFill.minutes(3), payload={"bell": "great"})
@app.task
async def chime(bell, _cron): ...

client.schedules.add("0 8 * * 1-5 report ?id=daily {to: 'team'}")
client.schedules.run_now("daily")"""
FEW_SECONDS = 15
SLOW = 16
"""So many jobs take a while before the kill, and again before the freeze: both must hit somebody in the midst."""


def perform(stage: Stage) -> None:
    """Let a fleet of workers meet schedules, many jobs, a kill and a freeze."""
    while waiting := stage.client.list_jobs(limit=10_000).jobs:
        stage.client.complete_jobs(job.id for job in waiting)
    miss_some_minutes(stage)
    with fleet():
        wait_until(lambda: len(stage.client.list_active_workers()) == FLEET)
        fire_schedules(stage)
        run_many_jobs(stage)


@contextmanager
def fleet() -> Iterator[None]:
    """Three worker processes, told to stop in the usual way at the end."""
    program = [sys.executable, "-m", "ferryman.cli", "worker", "fleet_tasks", "--log-level", "warning"]
    options = ["--processes", str(FLEET), "--concurrency", "12"]
    log = Path(os.environ["DEMO_HISTORY"]).with_name("log")
    with (
        log.open("wb") as output,
        subprocess.Popen([*program, *options], cwd=Path(__file__).parent, stderr=output) as process,  # noqa: S603 - our own
    ):
        try:
            yield
        finally:
            process.terminate()
    if process.returncode:
        raise SystemExit(f"the workers ended with exit code {process.returncode}:\n{log.read_text()}")


def history() -> History:
    return History(Path(os.environ["DEMO_HISTORY"]))


def miss_some_minutes(stage: Stage) -> None:
    """Pretend that a worker has brought the schedule along before: what nobody has heard of was not missed."""
    stage.chapter("After an hour without a worker, three processes start", f"{KNOWN_FOR_AN_HOUR};", "sql")
    stage.database.execute(KNOWN_FOR_AN_HOUR)


def fire_schedules(stage: Stage) -> None:
    stage.chapter("Schedules make up for minutes that were missed, or run when asked", SCHEDULES)
    daily = stage.client.schedules.add("0 8 * * 1-5 report ?id=daily {to: 'team'}")
    stage.client.schedules.run_now("daily")
    wait_until(lambda: len(chimes()) >= FLEET and bool(history().of("end", task="report")))
    found = chimes()
    told = (f"{minute:%H:%M}{' (missed)' if is_late else ''}" for minute, is_late in found)
    stage.tell(f"chime ran for {', '.join(told)}; {FLEET} workers look after it")
    stage.tell(f"daily ran now; its next time is {daily.next_run_at:%A %H:%M} UTC")
    minutes = [minute for minute, _ in found]
    each = [minutes[0] + timedelta(minutes=number) for number in range(len(minutes))] if minutes else None
    stage.check("a schedule fired once for each minute, also for those that were missed", each, minutes)
    ends = [is_late for _, is_late in found[:1] + found[-1:]]
    stage.check("what it made up for says so, and what was on time does not", [True, False], ends)
    ran = [note.to for note in history().of("end", task="report")]
    stage.check("a schedule that is kept in the database ran when asked to", ["team"], ran)


def chimes() -> list[tuple[datetime, bool]]:
    """The minutes for which the schedule has run, and whether each was made up for."""
    marks = [note.cron for note in history().of("end", task="chime") if note.cron]
    return sorted((datetime.fromisoformat(mark["ts"]), mark["backfilled"]) for mark in marks)


@dataclass(frozen=True, slots=True)
class Victim:
    worker: str
    pid: int
    since: int
    """When it was killed or frozen, in nanoseconds."""

    def __str__(self) -> str:
        return f"{short(self.worker)} (process {self.pid})"

    def seconds_until(self, moment: int) -> float:
        return (moment - self.since) / 1e9


def run_many_jobs(stage: Stage) -> None:
    plan, late = fleet_jobs(), slow_jobs()
    ours, default = RECOVERY.settings, WorkerRecoveryConfig().settings
    stage.chapter(
        f"{len(plan) + len(late):,} mixed jobs run; one worker is killed, another frozen and thawed",
        "$ ferryman worker fleet_tasks --processes 3\n$ kill -KILL …\n$ kill -STOP …\n$ kill -CONT …",
        "text",
    )
    stage.tell(f"here a worker is dead after {patience_of(ours)}")
    stage.tell(f"by default it is dead after {patience_of(default)}")
    began = time.perf_counter()
    jobs = [job.id for job in stage.client.add_raw_jobs(plan)]
    with Progress(console=stage.console, transient=True) as progress:
        bar = progress.add_task("jobs done", total=len(plan) + len(late))

        def wait(is_so: Callable[[], bool]) -> None:
            def is_so_now() -> bool:
                progress.update(bar, completed=len(jobs) - left(stage, jobs))
                return is_so()

            wait_until(is_so_now)

        killed = kill_one(stage, wait)
        jobs += [job.id for job in stage.client.add_raw_jobs(late)]
        frozen = freeze_one(stage, wait)
        wait(lambda: left(stage, jobs) == 0)
        wait(lambda: len(stage.client.list_active_workers()) == FLEET)
    seconds = time.perf_counter() - began
    starts = [note for note in history().of("start") if note.job in {*jobs}]
    workers = {note.worker for note in starts}
    stage.tell(f"{len(jobs):,} jobs, {len(starts):,} runs, under {len(workers)} worker ids, in {seconds:.1f} s")
    check_jobs(stage, plan + late, jobs)
    check_deaths(stage, killed, frozen)


def patience_of(settings: RecoverySettings) -> str:
    lost, silent = settings.lost_session_grace.total_seconds(), settings.sweep_threshold.total_seconds()
    return f"{lost:g} s without a session, or {silent:g} s of silence"


def kill_one(stage: Stage, wait: Callable[[Callable[[], bool]], None]) -> Victim:
    victim = pick_one(stage, wait, signal.SIGKILL)
    stage.tell(f"killed {victim} in the midst of {len(history().in_hand(victim.worker))} jobs")
    wait(lambda: history().noticed(victim.worker) is not None and not still_missing(victim))
    tell_of_death(stage, victim)
    return victim


def freeze_one(stage: Stage, wait: Callable[[Callable[[], bool]], None]) -> Victim:
    victim = pick_one(stage, wait, signal.SIGSTOP)
    try:
        stage.tell(f"froze {victim} in the midst of {len(history().in_hand(victim.worker))} jobs")
        wait(lambda: history().noticed(victim.worker) is not None and not still_missing(victim))
        tell_of_death(stage, victim)
    finally:
        with suppress(ProcessLookupError):
            os.kill(victim.pid, signal.SIGCONT)
    wait(lambda: history().begun_and_taken(victim.worker) <= history().refused(victim.worker))
    wait(lambda: bool(names_of(stage, victim)))
    names = ", ".join(map(short, names_of(stage, victim)))
    told = history()
    refused = told.begun_and_taken(victim.worker) & told.refused(victim.worker)
    stage.tell(f"thawed it: {len(refused)} of its results were refused; it is {names} now")
    return victim


def pick_one(stage: Stage, wait: Callable[[Callable[[], bool]], None], number: signal.Signals) -> Victim:
    """Send a signal to the worker that has most to lose. It is stopped first: only then is it sure what it has."""
    found: list[tuple[int, str, int]] = []

    def is_busy() -> bool:
        workers = {worker.worker_id: worker.metadata["pid"] for worker in stage.client.list_active_workers()}
        told = history()
        slow = {note.job for note in told.of("start", task="slow")}
        found[:] = sorted((len(told.in_hand(worker) & slow), worker, pid) for worker, pid in workers.items())
        return bool(found) and found[-1][0] > 0

    while True:
        wait(is_busy)
        if not found:
            raise SystemExit("The demo could not go on: no worker is left.")
        _, worker, pid = found[-1]
        since = time.monotonic_ns()
        os.kill(pid, signal.SIGSTOP)
        wait(lambda pid=pid: is_stopped(pid))
        if history().in_hand(worker):
            os.kill(pid, number)
            return Victim(worker, pid, since)
        os.kill(pid, signal.SIGCONT)  # its jobs ended in that very moment


def is_stopped(pid: int) -> bool:
    command = ["ps", "-o", "stat=", "-p", str(pid)]
    listed = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - any ps will do
    return not listed.stdout.strip() or listed.stdout.startswith("T")


def still_missing(victim: Victim) -> set[int]:
    """Jobs of the victim that nobody else has begun."""
    told = history()
    mine = told.taken_from(victim.worker) | told.in_hand(victim.worker)
    return mine - set(told.starts_elsewhere(victim.worker, victim.since))


def tell_of_death(stage: Stage, victim: Victim) -> None:
    told = history()
    noticed = told.noticed(victim.worker)
    starts = told.starts_elsewhere(victim.worker, victim.since)
    reason = next((lost.reason for lost in stage.client.list_lost_workers() if lost.worker_id == victim.worker), "?")
    if noticed is None or not starts:
        return
    stage.tell(f"{victim.seconds_until(noticed.at):.1f} s later {short(noticed.worker)} found it dead ({reason})")
    seconds = victim.seconds_until(max(starts.values()))
    stage.tell(f"{seconds:.1f} s later the last of the {len(starts)} jobs that it held ran elsewhere")


def check_jobs(stage: Stage, plan: list[RawJobSpec], jobs: list[int]) -> None:
    told = history()
    stage.check(f"0 of {len(jobs):,} jobs were lost", (0, 0), (len(told.lost(jobs)), left(stage, jobs)))
    stage.check("no job was settled by a worker that had lost it", [], told.settled_by_others())
    stage.check("no job was settled twice", [], told.settled_twice())
    touched = {note.job for note in told.of("take")}
    kinds = Counter(job.identifier for number, job in zip(jobs, plan, strict=True) if number not in touched)
    twice = kinds["flaky"] + kinds["batch"] + kinds["sleepy"]
    expected = {1: kinds.total() - twice, 2: twice}
    claim = "each job that no death touched ran once; those that ask for it, twice"
    stage.check(claim, expected, dict(told.times_run(jobs)))
    stage.check("named queues ran one job at a time", [], told.overlaps())
    stage.check("several workers shared the work", True, len({note.worker for note in told.of("settle")}) > 1)


def check_deaths(stage: Stage, killed: Victim, frozen: Victim) -> None:
    told = history()
    for victim, word in ((killed, "killed"), (frozen, "frozen")):
        mine = told.taken_from(victim.worker) | told.in_hand(victim.worker)
        elsewhere = set(told.starts_elsewhere(victim.worker, victim.since))
        claim = f"each of the {len(mine)} jobs that the {word} worker held ran elsewhere"
        stage.check(claim, (mine, True), (elsewhere, bool(mine)))
    again = told.starts_elsewhere(killed.worker, killed.since)
    latest = max((again.get(job, sys.maxsize) for job in told.in_hand(killed.worker)), default=sys.maxsize)
    seconds = killed.seconds_until(latest)
    claim = f"what the killed worker had begun was begun again within {seconds:.1f} s of the kill"
    stage.check(claim, True, seconds < FEW_SECONDS)
    begun, refused = told.begun_and_taken(frozen.worker), told.refused(frozen.worker)
    claim = f"{len(begun)} results from the thawed worker were refused: it no longer owned those jobs"
    stage.check(claim, (begun, True), (begun & refused, bool(begun)))
    stage.check("the thawed worker was refused nothing that it owned", set(), refused - told.taken_from(frozen.worker))
    stage.check("the thawed process goes on under another id", 1, len(names_of(stage, frozen)))
    pids = {worker.metadata["pid"] for worker in stage.client.list_active_workers()}
    stage.check("another process has replaced the killed one", (FLEET, False), (len(pids), killed.pid in pids))


def names_of(stage: Stage, victim: Victim) -> list[str]:
    """The ids under which the process goes on."""
    workers = stage.client.list_active_workers()
    return [one.worker_id for one in workers if one.metadata["pid"] == victim.pid and one.worker_id != victim.worker]


def short(worker: str) -> str:
    return worker[:16] + "…"


def left(stage: Stage, jobs: list[int]) -> int:
    return int(stage.ask("select count(*) from graphile_worker._private_jobs where id = any(%s)", jobs))


def fleet_jobs() -> list[RawJobSpec]:
    soon = datetime.now(UTC) + timedelta(seconds=1)
    kinds = [
        *(RawJobSpec("quick", {"n": n}) for n in range(1_168)),
        *(RawJobSpec("threaded", {"n": n}) for n in range(200)),
        *(RawJobSpec("serial", {"n": n}, JobSpec(queue_name=f"queue {n % 10}")) for n in range(300)),
        *(RawJobSpec("flaky", {"n": n}) for n in range(100)),
        *(RawJobSpec("heavy", {"n": n}) for n in range(20)),
        *(RawJobSpec("batch", list(range(10))) for _ in range(30)),
        *(RawJobSpec("sleepy", {"n": n}) for n in range(50)),
        *slow_jobs(),
        *(RawJobSpec("quick", {"n": n}, JobSpec(run_at=soon)) for n in range(100)),
    ]
    return sorted(kinds, key=lambda job: hash(str(job.payload)))


def slow_jobs() -> list[RawJobSpec]:
    """Before all others, since somebody shall be in the midst of them soon."""
    return [RawJobSpec("slow", {"seconds": 3}, JobSpec(priority=-1)) for _ in range(SLOW)]
