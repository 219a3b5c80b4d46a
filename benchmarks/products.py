"""The products that are compared: how each is run, where it keeps its jobs, and its best documented settings."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from benchmarks.server import libpq_environment
from benchmarks.toolchains import DRIVERS, ROOT, go_program, node_packages, python_environment, rust_program

if TYPE_CHECKING:
    from collections.abc import Callable

CONCURRENCY = 24
DEFAULT, BATCHED = "default", "batched"


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables in which a product keeps its jobs, so that they can be watched from outside, by primary key.

    waiting: the condition on a job that nobody has taken yet
    unfinished: the condition on a job that is not done; products that keep finished jobs tell them by it
    emptied: the tables to truncate between rounds
    fill: a statement that adds the jobs with these first and last numbers, as the client would; the client itself does
        it where there is none, which takes longer than to drain them
    """

    jobs: str
    waiting: str
    unfinished: str
    emptied: tuple[str, ...]
    order: str = "id"
    fill: str = ""


@dataclass(frozen=True, slots=True)
class Product:
    """A product that is compared.

    modes: settings for its driver: `default` is what it does unasked, but for the concurrency that all share;
        `batched` is the fastest that its own documentation or benchmark shows
    share, most_by_default: for those that would take minutes, which part of the jobs they get with best settings, and
        how many at most with default settings; rates are comparable all the same
    most_in_a_queue: the same for jobs of one named queue
    bulk: how many jobs its driver adds in a call when nobody measures that
    is_bystander: nothing is promised about it, so it is measured in fewer rounds
    packages: what it is made of, by the names of its registry
    source: where its best settings come from
    """

    name: str
    start: Callable[[], list[str]]
    tables: Tables
    modes: dict[str, dict[str, Any]]
    share: float = 1.0
    most_by_default: int = 10_000
    most_in_a_queue: int = 50
    bulk: int = 5_000
    has_queues: bool = False
    is_bystander: bool = False
    packages: tuple[str, ...] = ()
    source: str = ""
    extra: Callable[[], dict[str, str]] = field(default=dict)

    @property
    def command(self) -> list[str]:
        return self.start()

    def environment(self, url: str) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "TZ", "LANG") if name in os.environ}
        return kept | libpq_environment(url) | {"DATABASE_URL": url, "PYTHONUNBUFFERED": "1"} | self.extra()


GRAPHILE_TABLES = Tables(
    jobs="graphile_worker._private_jobs",
    waiting="locked_at is null",
    unfinished="true",
    emptied=("graphile_worker._private_jobs", "graphile_worker._private_job_queues"),
    fill="""
        with task as (
            insert into graphile_worker._private_tasks (identifier) values ('bench')
            on conflict (identifier) do update set identifier = excluded.identifier
            returning id
        )
        insert into graphile_worker._private_jobs (task_id, payload)
        select task.id, json_build_object('n', n) from task, generate_series(%s::int, %s::int) as n
    """,
)


def _own(script: str) -> Callable[[], list[str]]:
    return lambda: [sys.executable, str(DRIVERS / script)]


def _peer(name: str, *requirements: str, at_least: tuple[int, int] = (3, 11)) -> Callable[[], list[str]]:
    @cache
    def start() -> list[str]:
        python = python_environment(name, requirements, at_least=at_least)
        return [str(python), str(DRIVERS / f"drive_{name.split('-', maxsplit=1)[0]}.py")]

    return start


@cache
def _node() -> list[str]:
    return [str(node_packages()[0]), str(DRIVERS / "drive_graphile.js")]


def _node_environment() -> dict[str, str]:
    return {"NODE_PATH": str(node_packages()[1]), "NODE_ENV": "production"}


@cache
def _rust() -> list[str]:
    return [str(rust_program())]


@cache
def _go() -> list[str]:
    return [str(go_program())]


OUR_BEST = {"concurrency": CONCURRENCY, "local_queue": 2_000}

RAW = Product(
    name="raw SQL",
    start=_own("drive_raw.py"),
    most_by_default=50_000,
    tables=GRAPHILE_TABLES,
    modes={DEFAULT: {"claim": CONCURRENCY}, BATCHED: {"claim": 500}},
    packages=("psycopg",),
    source="our own trials: 1,000 per claim is within the spread",
)
FERRYMAN = Product(
    name="ferryman",
    start=_own("drive_ferryman.py"),
    most_by_default=50_000,
    tables=GRAPHILE_TABLES,
    modes={DEFAULT: {"concurrency": CONCURRENCY}, BATCHED: OUR_BEST},
    has_queues=True,
    packages=("ferryman", "psycopg", "msgspec"),
    source="our own trials",
)
FERRYMAN_UVLOOP = Product(
    name="ferryman on uvloop",
    start=_peer("ferryman-uvloop", "--editable", f"{ROOT}", "uvloop"),
    most_by_default=50_000,
    tables=GRAPHILE_TABLES,
    modes={DEFAULT: {"concurrency": CONCURRENCY, "uvloop": True}, BATCHED: OUR_BEST | {"uvloop": True}},
    has_queues=True,
    packages=("ferryman", "psycopg", "msgspec", "uvloop"),
    source="our own trials",
)
NODE = Product(
    name="graphile-worker 0.18 (Node)",
    start=_node,
    extra=_node_environment,
    tables=GRAPHILE_TABLES,
    modes={
        DEFAULT: {"concurrency": CONCURRENCY, "connections": CONCURRENCY + 1},
        BATCHED: {"concurrency": CONCURRENCY, "connections": 10, "local_queue": 500, "batch_delay": 0},
    },
    has_queues=True,
    source="its own performance test",
)
RUST = Product(
    name="graphile_worker 0.14 (Rust)",
    start=_rust,
    most_by_default=250,
    most_in_a_queue=10,
    tables=GRAPHILE_TABLES,
    modes={
        DEFAULT: {"concurrency": CONCURRENCY, "connections": CONCURRENCY + 1},
        BATCHED: {
            "concurrency": 500,
            "connections": 100,
            "local_queue": 5_000,
            "batch_delay": 5,
            "poll_interval": 5,
        },
    },
    has_queues=True,
    source="its own benchmark of 200,000 jobs",
)
RIVER = Product(
    name="river 0.50 (Go)",
    start=_go,
    most_by_default=1_000,
    tables=Tables("river_job", "state = 'available'", "state in ('available', 'running')", ("river_job",)),
    modes={
        DEFAULT: {"concurrency": CONCURRENCY},
        # cmd/river/riverbench: it says that its author tried many, and that these are much better than the defaults.
        BATCHED: {"concurrency": 2_000, "fetch_cooldown": 2, "poll_interval": 20},
    },
    share=0.25,
    source="its own benchmark, `river bench`",
)
PGQUEUER = Product(
    name="pgqueuer 1.6",
    start=_peer("pgqueuer", "pgqueuer==1.6.0", "asyncpg==0.32.0", "uvloop==0.23.0"),
    tables=Tables("pgqueuer", "status = 'queued'", "true", ("pgqueuer", "pgqueuer_log")),
    modes={
        DEFAULT: {"dequeuers": 1, "batch": 10, "uvloop": True},
        # docs/guides/performance-tuning.md: larger batches for short jobs. Its own benchmark, 5 of 10, is half as fast.
        BATCHED: {"dequeuers": 2, "batch": 250, "uvloop": True},
    },
    share=0.2,
    packages=("pgqueuer", "asyncpg", "uvloop"),
    source="its performance guide, and the fastest numbers that we found",
)
PROCRASTINATE = Product(
    name="procrastinate 3.10",
    start=_peer("procrastinate", "procrastinate==3.10.0", "psycopg[binary,pool]", "uvloop==0.23.0"),
    most_by_default=1_000,
    most_in_a_queue=4,
    tables=Tables("procrastinate_jobs", "status = 'todo'", "status in ('todo', 'doing')", ("procrastinate_jobs",)),
    modes={
        DEFAULT: {"concurrency": CONCURRENCY, "connections": 10},
        BATCHED: {"concurrency": CONCURRENCY, "connections": 10, "delete_jobs": "successful", "uvloop": True},
    },
    share=0.01,
    bulk=1_000,
    has_queues=True,
    is_bystander=True,
    packages=("procrastinate", "psycopg", "uvloop"),
    source="its option `delete_jobs`, and uvloop",
)
CHANCY = Product(
    name="chancy 0.26",
    start=_peer("chancy", "chancy==0.26.0", "psycopg[binary,pool]", "uvloop==0.23.0"),
    most_by_default=72,  # a batch of 24 every 5 seconds
    tables=Tables("chancy_jobs", "state = 'pending'", "state in ('pending', 'running')", ("chancy_jobs",)),
    modes={
        DEFAULT: {"concurrency": CONCURRENCY},
        # The reference of `Queue`: eager polling for queues that always have jobs. It has no benchmark of its own.
        BATCHED: {"concurrency": 500, "eager_polling": True, "polling_interval": 1, "uvloop": True},
    },
    share=0.02,
    bulk=1_000,
    is_bystander=True,
    packages=("chancy", "psycopg", "uvloop"),
    source="its reference of `Queue`, and a larger concurrency",
)
OBAN = Product(
    name="oban 0.7 (Python)",
    start=_peer("oban", "oban==0.7.0", "psycopg[binary,pool]", "uvloop==0.23.0", at_least=(3, 12)),
    most_by_default=4_000,
    tables=Tables("oban_jobs", "state = 'available'", "state in ('available', 'executing')", ("oban_jobs",)),
    modes={
        DEFAULT: {"concurrency": CONCURRENCY, "uvloop": True},
        BATCHED: {"concurrency": 250, "uvloop": True},
    },
    share=0.02,
    bulk=1_000,
    is_bystander=True,
    packages=("oban", "psycopg", "uvloop"),
    source="none published: a larger concurrency, and uvloop",
)

PRODUCTS = {
    "raw": RAW,
    "ferryman": FERRYMAN,
    "ferryman-uvloop": FERRYMAN_UVLOOP,
    "node": NODE,
    "rust": RUST,
    "river": RIVER,
    "pgqueuer": PGQUEUER,
    "procrastinate": PROCRASTINATE,
    "chancy": CHANCY,
    "oban": OBAN,
}
