"""Checks a history against the rules below, whichever workers were killed. Pure: lines go in, breaches and counts out.

Nothing is lost        A job that was added is gone and its last run ended well, or it failed for good with a cause
                       that the history shows, or a later job with its key took its place.
No phantoms            What was rolled back never runs.
No foreign settlement  A claim is let go once: by its worker or by a sweep, never by both. A job is completed once,
                       under its last claim. A worker is refused only what a sweep took from it.
No needless runs       A job runs again only if the run before raised, was given back at a shutdown, or its worker was
                       killed or was swept.
Queues one at a time   Two runs of a named queue never overlap. A run lasts until it ends, its process is killed, or
                       the sweep begins that takes its claim: after that its worker has lost the claim, and what the
                       handler still does until it notices is that of a zombie, which is counted but is no breach.
                       So is what a thread does after its worker has given the job back at a shutdown, when the grace
                       period was over: a thread cannot be cancelled.
Attempts               Each run has exactly the attempt that the past of the job explains, never one beyond the limit.
Superseded             A job whose key was taken over is never claimed after that.
Poison                 Nobody survives more crashes than allowed without an ordinary end between them, and nobody is
                       poisoned for fewer. One more is allowed where the last but one ended a child process, and the
                       last a worker that may have run other jobs: that one must not be held against the job.
The end                No job and no queue stays locked, no worker stays registered, and every worker can end.
"""

from __future__ import annotations

import bisect
import itertools
import math
import signal
import statistics
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from benchmarks.kill.handlers import EXIT_CODE
from benchmarks.kill.working import GRACE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tests.support.history import Line

MAX_CRASHES = 3
RETURNING = {"requeue", "given back"}
"""Decisions of sweeps that give the attempt back."""
USING_UP = {"retry", "backoff"}
"""Those that do not."""
PLANNED = {"raised", "snoozed"}
"""Ends of runs after which a job runs again without a fault."""
FINAL = {"fail", "poisoned", "superseded"}
"""Those after which a job does not run again."""


@dataclass(slots=True, kw_only=True)
class Run:
    """One run of a handler."""

    number: int
    job: int
    worker: str
    claim: str
    process: int
    at: int
    claimed: int
    queue: str | None
    attempt: int
    max_attempts: int
    end: str | None = None
    ended_at: float = math.inf
    has_ended_its_child: bool = False
    """Whether the handler ended the child process that it ran in: a crash of this job alone, and an attempt."""
    crash: Line | None = None
    """The sweep that took its claim."""


@dataclass(frozen=True, slots=True, order=True)
class Crash:
    """A crash of a job, at a time of PostgreSQL's clock."""

    at: int
    ended_child: bool = field(compare=False)


@dataclass(frozen=True, slots=True)
class Breach:
    """A breach of a rule, and the job that it happened to."""

    text: str
    number: int | None = None


@dataclass(slots=True)
class Verdict:
    """The result of checking a history."""

    title: str
    seconds: float
    by_rule: dict[str, list[Breach]]
    duplicates: Counter[str]
    counts: dict[str, int]
    seconds_to_notice: list[float]
    complaints: list[str]

    @property
    def breaches(self) -> list[Breach]:
        """All breaches, of every rule."""
        return [*itertools.chain.from_iterable(self.by_rule.values())]


def judge(lines: Iterable[Line], *, thawed_are_refused: bool = False) -> Verdict:
    """Find every breach of the rules.

    thawed_are_refused: whether all that were frozen were swept, thawed, and told to end when they knew
    """
    past = Past(sorted(lines, key=lambda line: line["at"]))
    duplicates: Counter[str] = Counter()
    by_rule = {
        "jobs lost": [*lost_jobs(past)],
        "jobs run that were rolled back": [*phantoms(past)],
        "settlements by others than the owner": [*foreign_settlements(past)],
        "settlements refused without a cause": [*needless_refusals(past)],
        "runs without a cause": [*needless_runs(past, duplicates)],
        "named queues that ran two jobs at once": [*shared_queues(past)],
        "attempts that the past does not explain": [*wrong_attempts(past)],
        "jobs that ran after they were over": [*revived_jobs(past)],
        "jobs poisoned too early or too late": [*wrong_poison(past)],
        "locks, workers and sessions left at the end": [*leftovers(past)],
    }
    if thawed_are_refused:
        by_rule["lost runs of thawed workers that were not refused"] = [*unrefused_zombies(past)]
    return verdict_of(past, by_rule, duplicates)


def verdict_of(past: Past, by_rule: dict[str, list[Breach]], duplicates: Counter[str]) -> Verdict:
    """Return the verdict: the breaches, and counts."""
    return Verdict(
        title="\n".join(line["title"] for line in past.of("plan")),
        seconds=(past.lines[-1]["at"] - past.lines[0]["at"]) / 1e9,
        by_rule=by_rule,
        duplicates=duplicates,
        counts=past.counts(),
        seconds_to_notice=past.seconds_to_notice(),
        complaints=[line["message"] for line in past.of("log")],
    )


class Past:
    """The history of a run, put in order."""

    def __init__(self, lines: Sequence[Line]) -> None:
        self._by_event: defaultdict[str, list[Line]] = defaultdict(list)
        for line in lines:
            self._by_event[line["event"]].append(line)
        self.lines = lines

    def of(self, *events: str) -> list[Line]:
        """Return the lines of these kinds."""
        return [line for event in events for line in self._by_event.get(event, ())]

    @cached_property
    def added(self) -> dict[int, Line]:
        """By number."""
        return {line["number"]: line for line in self.of("added")}

    @cached_property
    def ends(self) -> dict[int, float]:
        """The time at which each process was killed or ended; a signal is noted just before it is sent."""
        ends: dict[int, float] = {}
        exits = [(line["process"], line["at"]) for line in self.of("exiting") if not line["is_child"]]
        killed = [(line["of"], line["at"]) for line in self.of("killing", "died")]
        for process, at in itertools.chain(exits, killed):
            ends[process] = min(at, ends.get(process, math.inf))
        return ends

    @cached_property
    def violent_ends(self) -> dict[int, float]:
        """The ends of processes that were killed, or ended themselves in a handler."""
        violent = {line["of"] for line in self.of("died") if line["code"] != 0}
        return {process: at for process, at in self.ends.items() if process in violent}

    @cached_property
    def frozen(self) -> dict[int, list[int]]:
        """The times at which each process was frozen."""
        times: defaultdict[int, list[int]] = defaultdict(list)
        for line in self.of("freezing", "froze"):
            times[line["of"]].append(line["at"])
        return times

    @cached_property
    def terminated(self) -> dict[int, int]:
        """The times at which processes were told to end."""
        times: dict[int, int] = {}
        for line in self.of("terminating"):
            times.setdefault(line["of"], line["at"])
        return times

    @cached_property
    def returned(self) -> set[str]:
        """Claims that workers gave back when they were told to end, although a thread may have gone on for a moment."""
        return {line["claim"] for line in self.of("returned")}

    @cached_property
    def process_of(self) -> dict[str, int]:
        """The process of each worker, as far as it reported it."""
        return {line["worker"]: line["process"] for line in self.of("ready", "started")}

    @cached_property
    def runs(self) -> dict[int, list[Run]]:
        """The runs of each job, by number, in the order of their claims."""
        names = Run.__dataclass_fields__
        known = {
            line["run"]: Run(**{name: value for name, value in line.items() if name in names})
            for line in self.of("started")
        }
        for line in self.of("ended", "raised", "snoozed", "exiting", "cancelled"):
            run = known[line["run"]]
            run.end, run.ended_at = line["event"], line["at"]
            if run.end == "exiting" and line["is_child"]:
                run.end, run.has_ended_its_child = "raised", True
        self._assign_crashes(known.values())
        by_number: defaultdict[int, list[Run]] = defaultdict(list)
        for run in sorted(known.values(), key=lambda run: (run.claimed, run.at)):
            by_number[run.number].append(run)
        return by_number

    @cached_property
    def all_runs(self) -> list[Run]:
        """All runs, in the order of time."""
        return sorted(itertools.chain.from_iterable(self.runs.values()), key=lambda run: run.at)

    @cached_property
    def run_of_claim(self) -> dict[str, Run]:
        return {run.claim: run for run in self.all_runs}

    @cached_property
    def crashes(self) -> dict[int, list[Line]]:
        """The crashes of each job that sweeps recorded, by number."""
        owners: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        for line in self.of("added"):
            owners[line["job"]].append((line["wall"], line["number"]))
        by_number: defaultdict[int, list[Line]] = defaultdict(list)
        for crash in self.of("crash"):
            by_number[_owner_at(owners[crash["job"]], crash["noticed"])].append(crash)
        return by_number

    @cached_property
    def successors(self) -> dict[int, Line]:
        """The job that took over the key, by the number of the one before."""
        by_key: defaultdict[str, list[Line]] = defaultdict(list)
        for line in self.of("added"):
            if line["key"] is not None:
                by_key[line["key"]].append(line)
        pairs = itertools.chain.from_iterable(map(itertools.pairwise, by_key.values()))
        return {earlier["number"]: later for earlier, later in pairs}

    @cached_property
    def left(self) -> dict[int, Line]:
        """Jobs that are still in the table, by number."""
        return {line["number"]: line for line in self.of("left")}

    def swept_at(self, run: Run) -> float:
        """Return when the sweep began that took the claim of this run, on the clock of the history."""
        return math.inf if run.crash is None else (run.crash["noticed"] + self._clock_offset) * 1000

    def given_back_at(self, run: Run) -> float:
        """Return the earliest moment at which its worker can have given the job back at a shutdown."""
        if run.claim not in self.returned:
            return math.inf
        return self.terminated.get(run.process, math.inf) + GRACE.total_seconds() * 1e9

    def over_at(self, run: Run) -> float:
        """Return when the run was over, or its worker had lost the claim or given it back."""
        ended = min(run.ended_at, self.ends.get(run.process, math.inf))
        return min(ended, self.swept_at(run), self.given_back_at(run))

    def counts(self) -> dict[str, int]:
        """Return counts for the report."""
        zombies = [run for run in self.all_runs if run.end is not None and run.ended_at > self.swept_at(run)]
        threads = [run for run in self.all_runs if run.end != "cancelled" and run.claim in self.returned]
        codes = Counter(line["code"] for line in self.of("died"))
        return {
            "worker processes": len(self.of("born")),
            "killed with SIGKILL": codes[-signal.SIGKILL],
            "ended by os._exit in a handler": codes[EXIT_CODE],
            "ended in order": codes[0],
            "frozen, most of them until they were swept": sum(map(len, self.frozen.values())),
            "jobs": len(self.added),
            "jobs with a key that was taken over": len(self.successors),
            "jobs rolled back": sum(line["is_undone"] for line in self.of("adding")),
            "runs": len(self.all_runs),
            "settlements refused": len(self.of("refused")),
            "jobs recovered": len(self.of("crash")),
            "failed for good": len(self.left),
            "of these poisoned": sum(crash["decision"] == "poisoned" for crash in self.of("crash")),
            "handlers that ended after their claim was lost": len(zombies),
            "threads that went on after their job was given back": len(threads),
            "jobs that their thawed worker claimed again": sum(map(_is_claimed_again, self.runs.values())),
            "runs that began after their claim was lost": sum(run.at > self.swept_at(run) for run in self.all_runs),
        }

    def seconds_to_notice(self) -> list[float]:
        """The seconds from each kill of a worker to the sweep that took its jobs."""
        killed_at: dict[int, int] = {}
        for line in self.of("killing", "exiting"):
            killed_at.setdefault(line["of"] if "of" in line else line["process"], line["wall"])
        noticed: dict[int, int] = {}
        for crash in self.of("crash"):
            process = self.process_of.get(crash["worker"])
            if (
                process is not None
                and process in killed_at
                and process in self.violent_ends.keys() - self.frozen.keys()
            ):
                noticed[process] = min(crash["noticed"], noticed.get(process, crash["noticed"]))
        return sorted((at - killed_at[process]) / 1e6 for process, at in noticed.items())

    def _assign_crashes(self, runs: Iterable[Run]) -> None:
        """Find the claim that each sweep took. Mostly the sweeper has told of it; some were killed before they did."""
        held: defaultdict[tuple[int, str], list[Run]] = defaultdict(list)
        for run in sorted(runs, key=lambda run: run.claimed):
            held[run.job, run.worker].append(run)
        told: defaultdict[tuple[int, str], list[str]] = defaultdict(list)
        for line in self.of("freed"):
            told[line["job"], line["worker"]].append(line["claim"])
        crashes: defaultdict[tuple[int, str], list[Line]] = defaultdict(list)
        for line in self.of("crash"):
            crashes[line["job"], line["worker"]].append(line)
        for owner, lines in crashes.items():
            if len(told[owner]) == len(lines):
                by_claim = dict(zip(sorted(told[owner]), lines, strict=True))
                for run in held[owner]:
                    run.crash = by_claim.get(run.claim)
            else:
                for line in lines:
                    self._guess(line, held[owner])

    def _guess(self, crash: Line, held: Sequence[Run]) -> None:
        """Guess which claim a sweep took: the worker's last one with the same attempt, or else one that never ran.

        Only a job that was superseded has its attempts changed while it is held.
        """
        before = [run for run in held if run.claimed <= crash["noticed"]]
        if not before:
            return
        last = before[-1]
        is_superseded = crash["decision"] == "superseded" and last.claim not in self._let_go
        if last.attempt == crash["attempt"] or is_superseded:
            last.crash = crash

    @cached_property
    def _let_go(self) -> set[str]:
        return {line["claim"] for line in self.of("settled", "gave back", "gave up", "returned")}

    @cached_property
    def _clock_offset(self) -> float:
        """The difference from PostgreSQL's clock to that of the history, in microseconds."""
        return float(statistics.median(line["at"] / 1000 - line["wall"] for line in self.lines[:1001]))


def lost_jobs(past: Past) -> Iterator[Breach]:
    for number, line in past.added.items():
        runs, left = past.runs.get(number, []), past.left.get(number)
        if left is not None:
            if not _may_be_left(past, number, left):
                yield Breach(
                    f"job {line['job']} is still there ({left['attempts']} of {left['max_attempts']} attempts)", number
                )
        elif number not in past.successors and (not runs or runs[-1].end != "ended"):
            yield Breach(f"job {line['job']} was lost: it is gone, and its last run did not end", number)


def _may_be_left(past: Past, number: int, left: Line) -> bool:
    """True if the job may be left: it has failed for good, and the history shows the reason."""
    if left["worker"] is not None or left["attempts"] < left["max_attempts"]:
        return False
    if number in past.successors:
        return True
    if any(crash["decision"] in FINAL for crash in past.crashes[number]):
        return True
    runs = past.runs.get(number)
    if (
        runs
        and runs[-1].has_ended_its_child
        and any(len(row) >= MAX_CRASHES for row in _crashes_in_a_row(past, number))
    ):
        return True
    return bool(used_attempts(past, number, math.inf) >= left["max_attempts"])


def phantoms(past: Past) -> Iterator[Breach]:
    undone = {line["number"] for line in past.of("adding") if line["is_undone"]}
    known = {line["number"] for line in past.of("adding")}
    for run in past.all_runs:
        if run.number in undone or run.number not in known:
            yield Breach(f"job {run.job} ran, and was never added", run.number)


def foreign_settlements(past: Past) -> Iterator[Breach]:
    settled: Counter[int] = Counter()
    for line in past.of("settled", "gave back", "gave up"):
        if line["event"] == "gave up" and line["process"] != past.process_of.get(line["worker"]):
            continue  # the words of the sweeper that ended it
        run = past.run_of_claim.get(line["claim"])
        if run is None:
            yield Breach(f"job {line['job']} was settled under claim {line['claim']}, which never ran")
            continue
        if run.crash is not None:
            yield Breach(f"job {run.job} was settled by {run.worker}, from which it had been taken", run.number)
        if line["event"] == "settled":
            settled[run.number] += 1
            if run.claim != past.runs[run.number][-1].claim:
                yield Breach(f"job {run.job} was completed by {run.worker}, which was not its last owner", run.number)
    for number, count in settled.items():
        if count > 1:
            yield Breach(f"job {past.runs[number][0].job} was completed {count} times", number)


def needless_refusals(past: Past) -> Iterator[Breach]:
    swept: dict[tuple[int, str], int] = {}
    for crash in past.of("crash"):
        swept.setdefault((crash["job"], crash["worker"]), crash["noticed"])
    for line in past.of("refused"):
        if swept.get((line["job"], line["worker"]), math.inf) > line["wall"]:
            numbers = [run.number for run in past.all_runs if (run.job, run.worker) == (line["job"], line["worker"])]
            yield Breach(
                f"worker {line['worker']} was refused job {line['job']}, which nobody had taken from it",
                numbers[-1] if numbers else None,
            )


def needless_runs(past: Past, duplicates: Counter[str]) -> Iterator[Breach]:
    for claim, count in Counter(run.claim for run in past.all_runs).items():
        if count > 1:
            run = past.run_of_claim[claim]
            yield Breach(f"job {run.job} ran {count} times under one claim", run.number)
    for number, runs in past.runs.items():
        for earlier in runs[:-1]:
            cause = _cause(past, earlier)
            if cause is None:
                yield Breach(
                    f"job {earlier.job} ran again although nothing had happened to run {earlier.claim}", number
                )
            elif cause not in PLANNED:
                duplicates[cause] += 1


def _cause(past: Past, run: Run) -> str | None:
    """Return why a job ran again after this run."""
    if run.crash is not None:
        return _cause_of_sweep(past, run, run.crash)
    is_given_back = run.claim in past.returned or run.end in {"cancelled", None}
    if is_given_back and run.process in past.terminated:
        return "given back at a shutdown"
    return run.end if run.end in PLANNED else None


def _cause_of_sweep(past: Past, run: Run, crash: Line) -> str | None:
    swept = past.swept_at(run)
    if any(at < swept for at in past.frozen.get(run.process, ())):
        return "worker frozen and swept"
    killed = past.violent_ends.get(run.process, math.inf)
    if killed < swept:
        was_done = run.ended_at < killed
        return "worker killed after it ran, before that was written" if was_done else "worker killed while it ran"
    if run.process in past.terminated:
        return "worker ended before that was written"
    return "worker starved and swept" if crash["reason"] == "silent" else None


def shared_queues(past: Past) -> Iterator[Breach]:
    busiest: dict[str, Run] = {}
    for run in past.all_runs:
        if run.queue is None or past.over_at(run) <= run.at:
            continue
        before = busiest.get(run.queue)
        if before is not None and past.over_at(before) > run.at:
            yield Breach(f"queue {run.queue!r} ran jobs {before.job} and {run.job} at once", run.number)
        if before is None or past.over_at(run) > past.over_at(before):
            busiest[run.queue] = run


def wrong_attempts(past: Past) -> Iterator[Breach]:
    for number, runs in past.runs.items():
        for run in runs:
            expected = 1 + used_attempts(past, number, run.claimed)
            if run.attempt != expected:
                yield Breach(f"job {run.job} had attempt {run.attempt} where its past explains {expected}", number)
            if run.attempt > run.max_attempts:
                yield Breach(f"job {run.job} had attempt {run.attempt} of {run.max_attempts}", number)


def used_attempts(past: Past, number: int, before: float) -> int:
    """Return how many attempts of a job were used up by this time of PostgreSQL's clock."""
    raised = sum(
        run.end == "raised" and run.crash is None and run.claim not in past.returned and run.claimed < before
        for run in past.runs.get(number, ())
    )
    crashed = sum(crash["decision"] in USING_UP and crash["noticed"] < before for crash in past.crashes[number])
    return int(raised + crashed)


def revived_jobs(past: Past) -> Iterator[Breach]:
    for number, successor in past.successors.items():
        for run in past.runs.get(number, ()):
            if run.claimed > successor["wall"]:
                yield Breach(f"job {run.job} was superseded by {successor['job']}, and claimed after that", number)
    for number, crashes in past.crashes.items():
        final = min((crash["noticed"] for crash in crashes if crash["decision"] in FINAL), default=math.inf)
        for run in past.runs.get(number, ()):
            if run.claimed > final:
                yield Breach(f"job {run.job} ran after a sweep had ended it for good", number)


def wrong_poison(past: Past) -> Iterator[Breach]:
    for number, runs in past.runs.items():
        for row in _crashes_in_a_row(past, number):
            if len(row) > MAX_CRASHES + _has_another_chance(row):
                yield Breach(f"job {runs[0].job} crashed {len(row)} times", number)
    for number, crashes in past.crashes.items():
        count = len(_crashes(past, number))
        if any(crash["decision"] == "poisoned" for crash in crashes) and count < MAX_CRASHES:
            yield Breach(f"job {crashes[0]['job']} was poisoned after {count} crashes", number)


def _crashes(past: Past, number: int) -> list[Crash]:
    """Return the crashes of a job, with its worker or its child process, in the order of time."""
    with_worker = [
        Crash(crash["noticed"], ended_child=False)
        for crash in past.crashes[number]
        if crash["started"] is not False and crash["decision"] != "superseded"
    ]
    with_child = [
        Crash(run.claimed, ended_child=True)
        for run in past.runs.get(number, ())
        if run.has_ended_its_child and run.crash is None and run.claim not in past.returned
    ]
    return sorted(with_worker + with_child)


def _crashes_in_a_row(past: Past, number: int) -> list[list[Crash]]:
    """Return the crashes of a job, split where an ordinary end lies between them."""
    runs = past.runs.get(number, ())
    ends = sorted(run.claimed for run in runs if run.end in PLANNED and not run.has_ended_its_child)
    rows: defaultdict[int, list[Crash]] = defaultdict(list)
    for crash in _crashes(past, number):
        rows[bisect.bisect(ends, crash.at)].append(crash)
    return [*rows.values()]


def _has_another_chance(row: Sequence[Crash]) -> bool:
    """True if the crash that should have been the last ended a worker that may have run other jobs too.

    Only the death of its worker makes a job run alone before its last chance. That of a child process does not.
    """
    return len(row) >= MAX_CRASHES and row[MAX_CRASHES - 2].ended_child and not row[MAX_CRASHES - 1].ended_child


def leftovers(past: Past) -> Iterator[Breach]:
    for line in past.of("locked"):
        yield Breach(f"queue {line['queue']!r} stayed locked")
    for line in past.of("broken"):
        yield Breach(f"worker process {line['process']} broke: {line['error']}")
    for line in past.of("did not end"):
        yield Breach(f"worker process {line['of']} did not end when it was told to")
    for line in past.of("over"):
        for worker in line["workers"]:
            yield Breach(f"worker {worker} stayed registered")
        if line["sessions"]:
            yield Breach(f"{line['sessions']} connections stayed open")
    if not past.of("over"):
        yield Breach("the history has no end")


def unrefused_zombies(past: Past) -> Iterator[Breach]:
    refused = {(line["job"], line["worker"]) for line in past.of("refused")}
    for run in past.all_runs:
        is_thawed = run.process in past.frozen and run.process not in past.violent_ends
        if is_thawed and run.crash is not None and (run.job, run.worker) not in refused:
            yield Breach(f"thawed worker {run.worker} was never refused job {run.job}", run.number)


def story(lines: Iterable[Line], number: int) -> list[str]:
    """Return all lines of the history about a job, in the order of time."""
    lines = sorted(lines, key=lambda line: line["at"])
    about = [line for line in lines if line.get("number") == number]
    jobs = {line["job"] for line in about if "job" in line}
    processes = {line["process"] for line in about if line["event"] == "started"}
    told = [
        line
        for line in lines
        if line.get("number") == number
        or (line.get("job") in jobs and line.get("number") is None)
        or line.get("of") in processes
        or (line["event"] in {"born", "ready"} and line["process"] in processes)
    ]
    first = told[0]["at"] if told else 0
    return [_told(line, first) for line in told]


def _told(line: Line, first: int) -> str:
    shown: dict[str, Any] = {
        name: value for name, value in line.items() if name not in {"event", "at", "pid", "wall", "claimed", "number"}
    }
    facts = " ".join(f"{name}={value}" for name, value in shown.items())
    return f"{(line['at'] - first) / 1e9:10.4f} s  {line['event']:<12} {facts}"


def _is_claimed_again(runs: Sequence[Run]) -> bool:
    """True if the process that lost a job ran it once more."""
    return any(
        earlier.crash is not None and earlier.process == later.process for earlier, later in itertools.pairwise(runs)
    )


def _owner_at(owners: Sequence[tuple[int, int]], wall: int) -> int:
    """Return the number that a job had at a time: a waiting job may be replaced under the same id."""
    before = [number for at, number in owners if at <= wall]
    return before[-1] if before else (owners[0][1] if owners else -1)
