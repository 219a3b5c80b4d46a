"""Draws conclusions from the figures of a run: one function for each question.

The limits are rough on purpose. Each advice says what was measured and why it matters, so that the reader can judge.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

from ferryman.cli.bench.figures import cores, milliseconds, per_second, times

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ferryman.cli.bench.figures import Drain, Figures, Rate

LONG_ROUND_TRIP_MS = 1.0
SLOW_COMMIT_MS = 2.0
"""Beyond the round trip: the time in which the server makes the commit durable."""
MUCH_FASTER = 1.2
MUCH_FASTER_TO_ADD = 3.0
MUCH_LARGER = 1.5
BUSY_CPU = 0.85
BUSY_SLOTS = 0.5
"""The share of busy slots that counts as full: between two jobs a slot waits for the database."""
LONG_JOB_MS = 20.0
"""Jobs that take this long gain nothing from a local queue, unless the server is as distant as that."""
ROUND_TRIPS_OF_A_LONG_JOB = 10
WIDE_SPREAD = 1.5
MOST_CONCURRENCY = 1000
CPU_TO_PLAN_FOR = 0.7
"""The share of a processor to plan with: a worker should not need all of it all the time."""
CONNECTIONS_APART = 2
"""The connections of each worker process outside its pool: one listens, one sends heartbeats."""


@dataclass(frozen=True, slots=True)
class Advice:
    """A conclusion from the figures.

    topic: a word for programs
    seen: what was measured
    reason: why it matters
    settings: settings to try, each by itself; empty if there is nothing to change
    """

    topic: str
    seen: str
    reason: str
    settings: tuple[str, ...] = ()


def advise(figures: Figures) -> list[Advice]:
    """Return every advice that the figures call for, the most important first."""
    questions: Sequence[Callable[[Figures], Advice | None]] = (
        pooler_advice,
        concurrency_advice,
        processor_advice,
        local_queue_advice,
        adding_advice,
        commit_advice,
        connections_advice,
        spread_advice,
    )
    return [advice for question in questions if (advice := question(figures)) is not None]


def pooler_advice(figures: Figures) -> Advice | None:
    """Say what a pooler in front of the server costs."""
    if not figures.server.has_pooler:
        return None
    return Advice(
        "pooler",
        f"A pooler such as PgBouncer answers in place of the server. An idle worker started a job "
        f"{milliseconds(figures.latency.p50)} after it was added (median).",
        "Through a pooler Ferryman prepares no statements, so the server plans each one again. In transaction mode "
        "workers cannot listen either: they find new jobs by polling, and dead workers by their silence alone. For "
        "clients that only add jobs, a pooler is fine.",
        (
            "ferryman worker … --database-url <address of the server itself>",
            "ferryman worker … --no-listen --poll-interval 0.5   # if there is no other address",
        ),
    )


def concurrency_advice(figures: Figures) -> Advice | None:
    """Advise more slots if waiting jobs fill them while the processor is idle."""
    setup, drain = figures.setup, best_drain(figures)
    job_seconds = setup.job_ms / 1000
    busy_slots = drain.rate.median * job_seconds
    if busy_slots < BUSY_SLOTS * setup.concurrency or drain.cpu_share >= BUSY_CPU:
        return None
    reachable = CPU_TO_PLAN_FOR * 1_000_000 / drain.cpu_us
    wanted = min(ceil(reachable * job_seconds), MOST_CONCURRENCY)
    if wanted <= setup.concurrency:
        return None
    return Advice(
        "concurrency",
        f"With jobs of {setup.job_ms:g} ms, {busy_slots:.1f} of {setup.concurrency} slots were busy on average, and "
        f"this process used {cores(drain.cpu_share)}.",
        f"Jobs at once = jobs per second x seconds per job (Little's law): {setup.concurrency} slots allow no more "
        f"than {per_second(setup.concurrency / job_seconds)}. {wanted:,} slots allow up "
        f"to {per_second(wanted / job_seconds)}, if your jobs wait and do not compute.",
        (f"ferryman worker … --concurrency {wanted}",),
    )


def processor_advice(figures: Figures) -> Advice | None:
    """Advise more processes if this one used all of its processor."""
    drain = max(_drains(figures), key=lambda each: each.cpu_share)
    if drain.cpu_share < BUSY_CPU:
        return None
    processors = figures.machine.processors
    settings, reason = [], "One process runs Python on one processor at a time, and this one used all of it."
    if processors > 1:
        settings.append(f"ferryman worker … --processes {processors}")
        reason += " Start one for each processor, or fewer if PostgreSQL runs on this machine too."
    else:
        reason += " This machine has no other processor: add a machine with a worker, or use a larger one."
    if figures.machine.event_loop.startswith("asyncio"):
        reason += " Where uvloop is installed, workers run on it, and may need less per job."
        settings.append("pip install 'ferryman[uvloop]'")
    seen = f"A job cost {drain.cpu_us:,.0f} µs of processor time, and the process used {cores(drain.cpu_share)}."
    return Advice("processor", seen, reason, tuple(settings))


def local_queue_advice(figures: Figures) -> Advice | None:
    """Advise whether to claim ahead, and how many jobs."""
    setup, queued = figures.setup, figures.local_queue
    if queued is None:
        return _untried_queue_advice(figures)
    gain = queued.rate.median / figures.direct.rate.median
    seen = (
        f"With a local queue of {setup.queue_size:,} the worker did {per_second(queued.rate.median)}, "
        f"{times(gain)} the {per_second(figures.direct.rate.median)} without."
    )
    if gain < MUCH_FASTER or _are_jobs_long(figures):
        return Advice(
            "local_queue",
            seen,
            "That gain is too small to claim ahead: a job in a local queue keeps its place when one with a higher "
            "priority arrives, and idle workers elsewhere cannot take it.",
            ("ferryman worker … --queue-size 0   # the default",),
        )
    settings = [f"ferryman worker … --queue-size {setup.queue_size}"]
    if (more := queue_size_for(figures)) >= MUCH_LARGER * setup.queue_size:
        settings.append(f"ferryman bench --queue-size {more}   # whether more is better still")
    return Advice("local_queue", seen, _queue_reason(figures), tuple(settings))


def queue_size_for(figures: Figures) -> int:
    """Return twice the number of jobs that this process can run during one fetch, and at least a few for each slot.

    A fetch is a write, so it takes at least as long as a commit.
    """
    setup = figures.setup
    by_processor = 1_000_000 / best_drain(figures).cpu_us
    by_slots = setup.concurrency * 1000 / setup.job_ms if setup.job_ms else by_processor
    meanwhile = min(by_processor, by_slots) * figures.commit.p50 / 1000
    return _rounded_up(max(2 * meanwhile, 4 * setup.concurrency, 100))


def adding_advice(figures: Figures) -> Advice | None:
    """Advise adding in bulk if that is much faster."""
    gain = figures.add_bulk.median / figures.add_one.median
    if gain < MUCH_FASTER_TO_ADD:
        return None
    return Advice(
        "adding",
        f"Added in bulk, {per_second(figures.add_bulk.median)} went in; one by one, "
        f"{per_second(figures.add_one.median)}.",
        f"Each call waits for a round trip and a commit, here {milliseconds(figures.commit.p50)} for the smallest "
        f"write ({milliseconds(figures.round_trip.p50)} of it the round trip). If you have many jobs at once, add them "
        "in one call; if you have a transaction of your own, add them in it.",
        ("client.add_jobs([…])", "client.add_job(…, using=connection)"),
    )


def commit_advice(figures: Figures) -> Advice | None:
    """Advise writing completions less often if a commit is slow."""
    cost = figures.commit.p50 - figures.round_trip.p50
    if cost < SLOW_COMMIT_MS or figures.setup.batch_delay_ms >= cost:
        return None
    delay = max(5, ceil(figures.commit.p50))
    return Advice(
        "commit",
        f"A commit takes {milliseconds(cost)} (median), without the round trip.",
        "Every write waits for a slow disk or a synchronous standby. A worker writes together the completions that "
        "arrive during one write; a delay collects more of them, so that the server commits less often. A completed "
        "job stays locked for that much longer, and runs again if its worker dies meanwhile.",
        (
            f"ferryman bench --batch-delay {delay}   # to measure it",
            f"WorkerOptions(complete_job_batch_delay=timedelta(milliseconds={delay}))",
        ),
    )


def connections_advice(figures: Figures) -> Advice | None:
    """Warn if a worker on each processor would need more connections than the server has left."""
    server, processes = figures.server, figures.machine.processors
    room = max(0, server.connections_allowed - server.connections_used)
    each = figures.setup.max_connections + CONNECTIONS_APART
    if processes * each <= room:
        return None
    fitting = max(1, room // processes - CONNECTIONS_APART)
    seen = (
        f"The server has room for {room:,} more connections ({server.connections_used:,} of "
        f"{server.connections_allowed:,} are in use)."
    )
    reason = (
        f"A worker process uses up to {each}: --max-connections ({figures.setup.max_connections}), one to listen and "
        f"one for heartbeats. {processes} processes, one for each processor of this machine, may ask for "
        f"{processes * each:,}. Claiming and settling need few; handlers that use ctx.client need the rest."
    )
    settings = ["max_connections = … in postgresql.conf, or fewer processes"]
    if processes * (fitting + CONNECTIONS_APART) <= room and fitting < figures.setup.max_connections:
        settings.insert(0, f"ferryman worker … --max-connections {fitting}")
    return Advice("connections", seen, reason, tuple(settings))


def spread_advice(figures: Figures) -> Advice | None:
    """Warn if the rounds differ so much that the figures say little."""
    named: list[tuple[str, Rate]] = [("draining", each.rate) for each in _drains(figures)]
    named += [("adding one by one", figures.add_one), ("adding in bulk", figures.add_bulk)]
    name, widest = max(named, key=lambda pair: pair[1].highest / pair[1].lowest)
    spread = widest.highest / widest.lowest
    if spread < WIDE_SPREAD:
        return None
    return Advice(
        "spread",
        f"The rounds differ: when {name}, the fastest was {times(spread)} the slowest.",
        "Something else was busy on this machine or on the server, or the run was short. To judge small differences, "
        "use longer runs.",
        (f"ferryman bench --jobs {figures.setup.jobs * 4} --rounds {max(5, figures.setup.rounds)}",),
    )


def best_drain(figures: Figures) -> Drain:
    """Return the faster of the two drains."""
    return max(_drains(figures), key=lambda each: each.rate.median)


def _drains(figures: Figures) -> list[Drain]:
    return [figures.direct] if figures.local_queue is None else [figures.direct, figures.local_queue]


def _untried_queue_advice(figures: Figures) -> Advice | None:
    if figures.round_trip.p50 <= LONG_ROUND_TRIP_MS or _are_jobs_long(figures):
        return None
    size = queue_size_for(figures)
    seen = f"A round trip to the server takes {milliseconds(figures.round_trip.p50)} (median)."
    settings = (f"ferryman bench --queue-size {size}   # to measure it", f"ferryman worker … --queue-size {size}")
    return Advice("local_queue", seen, _queue_reason(figures), settings)


def _queue_reason(figures: Figures) -> str:
    trip = milliseconds(figures.round_trip.p50)
    if figures.round_trip.p50 > LONG_ROUND_TRIP_MS:
        why = f"The server is distant: a slot waits at least {trip} for its next job."
    else:
        why = f"Between two jobs a slot waits for the server (at least {trip}), which matters with jobs this short."
    return f"{why} Jobs that were claimed ahead start at once. Their priority counts only when they are claimed."


def _are_jobs_long(figures: Figures) -> bool:
    return figures.setup.job_ms >= max(LONG_JOB_MS, ROUND_TRIPS_OF_A_LONG_JOB * figures.round_trip.p50)


def _rounded_up(number: float) -> int:
    """Round up to a hundred: 137 would look more precise than it is."""
    return ceil(number / 100) * 100
