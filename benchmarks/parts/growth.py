"""Growth: what becomes of the rate when the table is not small and healthy. Graphile's family only, default settings.

The table is filled by SQL, vacuumed and analysed. Then one worker runs until a given job near the front is done, or for
some seconds, and the jobs done in that time are counted. "Pinned" holds a snapshot open, so that no dead row can be
removed, while 50,000 jobs come and go first. The two backlogs that a promise is about are measured in every round, in
turns, for Ferryman; all the rest once.
"""

from __future__ import annotations

from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psycopg

from benchmarks.products import DEFAULT, FERRYMAN, NODE, RUST
from benchmarks.results import Part
from benchmarks.server import process_seconds

if TYPE_CHECKING:
    from benchmarks.bench import Bench
    from benchmarks.products import Product
    from benchmarks.programs import Program
    from benchmarks.results import Series
    from benchmarks.watching import Watch

JOBS = "graphile_worker._private_jobs"
FAMILY = [FERRYMAN, NODE, RUST]
MEASURED = 10_000
SECONDS = 5.0

READY = f"""insert into {JOBS} (task_id, payload)
    select tasks.id, json_build_object('n', n)
    from graphile_worker._private_tasks as tasks, generate_series(1, %s) as n where identifier = 'bench'"""
FUTURE = f"""insert into {JOBS} (task_id, payload, run_at, priority)
    select tasks.id, '{{"n": 0}}', now() + interval '1 day', -1
    from graphile_worker._private_tasks as tasks, generate_series(1, %s) where identifier = 'bench'"""
FOREIGN = f"""insert into {JOBS} (task_id, payload, priority)
    select tasks.id, '{{}}', -1
    from graphile_worker._private_tasks as tasks, generate_series(1, %s) where identifier = 'foreign'"""
QUEUES = (
    "insert into graphile_worker._private_job_queues (queue_name) select 'queue ' || n from generate_series(1, %s) as n"
)
QUEUED = f"""insert into {JOBS} (task_id, payload, job_queue_id)
    select tasks.id, '{{"n": 0}}', queues.id
    from graphile_worker._private_tasks as tasks, graphile_worker._private_job_queues as queues
    where identifier = 'bench'"""
OURS = f"""select jobs.id from {JOBS} as jobs join graphile_worker._private_tasks as tasks on tasks.id = task_id
    where identifier = 'bench' and run_at <= now() order by jobs.id limit {MEASURED}"""
CHURN = f"with gone as (delete from {JOBS} returning 1) select count(*) from gone"


@dataclass(frozen=True, slots=True)
class Scenario:
    """A state of the table: statements that produce it, and whether a snapshot is held open meanwhile."""

    fill: tuple[tuple[str, int | None], ...]
    pinned: bool = False


BACKLOG = {count: f"backlog of {count:,}" for count in (1_000, 10_000, 100_000, 1_000_000)}
SCENARIOS: dict[str, Scenario] = {
    **{title: Scenario(((READY, count),)) for count, title in BACKLOG.items()},
    "1 M future jobs at a better priority": Scenario(((FUTURE, 1_000_000), (READY, MEASURED))),
    "300 k jobs of other tasks at a better priority": Scenario(((FOREIGN, 300_000), (READY, MEASURED))),
    "100 k idle queues": Scenario(((QUEUES, 100_000), (READY, MEASURED))),
    "100 k queues with a job each": Scenario(((QUEUES, 100_000), (QUEUED, None))),
    "pinned snapshot, 50 k dead rows": Scenario(((READY, 50_000), (CHURN, None), (READY, MEASURED)), pinned=True),
}
PROMISED = [BACKLOG[10_000], BACKLOG[1_000_000]]


def measure(bench: Bench) -> Part:
    part = Part("growth")
    family = [product for product in bench.products if product in FAMILY]
    for title, scenario in SCENARIOS.items():
        for product in bench.interleaved(part, family, what=title, rounds=1):
            with bench.leaving_out(part, product):
                _one(bench, product, scenario, part.of(title, product.name, "jobs/s"))
    if FERRYMAN in family:
        _repeat_what_is_promised(bench, part)
    return part


def _repeat_what_is_promised(bench: Bench, part: Part) -> None:
    for number in range(1, bench.rounds):
        for title in PROMISED[:: 1 if number % 2 else -1]:
            bench.console.print(f"  {part.name} {number + 1}/{bench.rounds}: {title}", style="dim")
            with bench.leaving_out(part, FERRYMAN):
                _one(bench, FERRYMAN, SCENARIOS[title], part.of(title, FERRYMAN.name, "jobs/s"))
            bench.keep(part)


def _one(bench: Bench, product: Product, scenario: Scenario, into: Series) -> None:
    share = 0.01 if bench.quick else 1.0
    with ExitStack() as stack:
        connection = stack.enter_context(psycopg.connect(bench.url(product), autocommit=True))
        watch = stack.enter_context(bench.watching(product))
        program = stack.enter_context(bench.working(product, DEFAULT))
        watch.empty()
        connection.execute(
            "insert into graphile_worker._private_tasks (identifier) values ('bench'), ('foreign') "
            "on conflict do nothing"
        )
        if scenario.pinned:
            _pin(stack, bench.url(product))
        for statement, rows in scenario.fill:
            connection.execute(statement, None if rows is None else [max(100, int(rows * share))])
        watch.settle_down()
        ids = [row[0] for row in connection.execute(OURS)]
        before = watch.unfinished()
        program.ready()
        client, server = process_seconds(program.pid), bench.server.processor_seconds()
        seconds = _run(watch, program, ids, patience=1.0 if bench.quick else SECONDS)
        client, server = process_seconds(program.pid) - client, bench.server.processor_seconds() - server
        done = before - watch.unfinished()
        if done:
            into.values.append(done / seconds)
            into.note(jobs=done, client_us=client / done * 1e6, server_us=server / done * 1e6)


def _pin(stack: ExitStack, url: str) -> None:
    holder = stack.enter_context(psycopg.connect(url))
    holder.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    holder.execute("select 1")


def _run(watch: Watch, program: Program, ids: list[int], *, patience: float) -> float:
    """Return the seconds from the first job taken to the last job done, or to the end of our patience."""
    program.send({})
    start = watch.until_taken(ids[0], [program])
    with suppress(TimeoutError):
        return watch.until_done(ids[-1], [program], patience=patience) - start
    return patience
