"""The checks, one function each: it returns figures, and raises if something is wrong."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psycopg

from benchmarks.rust_peer.workers import History, PeerError, RustPeer, ferryman_working, wait_for
from ferryman import JobKeyMode, JobSpec, RawJobSpec, SyncClient
from ferryman.schema import Layout, MigrationOutcome

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

SHARED_JOBS = 25_000
QUEUES = 20
KEYED_JOBS = 300
HELD_JOBS = 4
FOREVER_MS = 3_600_000
THRESHOLD_MS = 10_000
RUST_REVISION = 22


class BrokenPromiseError(Exception):
    """A check failed: something that must hold does not."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A database, a history of events, and the workers of both sides."""

    url: str
    rust: RustPeer
    history: History

    @property
    def settings(self) -> dict[str, object]:
        """The settings for workers of either side."""
        return {"history": str(self.history.path), "sweep_threshold_ms": THRESHOLD_MS}

    def count(self, condition: str = "true") -> int:
        with psycopg.connect(self.url, autocommit=True) as connection:
            row = connection.execute(f"select count(*) from graphile_worker._private_jobs where {condition}").fetchone()
        assert row is not None
        return int(row[0])


@dataclass(frozen=True, slots=True)
class Maker:
    """Makes stages, each with a database of its own."""

    fresh_database: Callable[[str], str]
    program: Path
    folder: Path

    def stage(self, name: str) -> Stage:
        url = self.fresh_database(name)
        return Stage(url, RustPeer(self.program, url), History(self.folder / f"{name}.history"))


def expect(fact: object, what: str) -> None:
    """Raise unless `fact` is true."""
    if not fact:
        raise BrokenPromiseError(what)


def shared_jobs(maker: Maker) -> Sequence[str]:
    """Check that both sides run jobs added through our SQL functions, and through the crate's, half of each."""
    stage, quarter = maker.stage("shared"), SHARED_JOBS // 4
    with SyncClient(stage.url) as client:
        client.migrate()
        _add_both(stage, client, 0, quarter)
        expect(client.schema_status().functions_repaired, "the functions are ours before a Rust worker comes")
        began = time.monotonic()
        with stage.rust.working(**stage.settings), ferryman_working(stage.url, **stage.settings):
            status = client.schema_status()
            found = (status.layout, status.revision, status.functions_repaired, status.compatible)
            expect(found == (Layout.RUST, RUST_REVISION, False, True), f"a Rust worker has migrated: {found}")
            _add_both(stage, client, 2 * quarter, quarter)
            wait_for(lambda: stage.count() == 0, "all shared jobs are done")
            took = time.monotonic() - began
    numbers = list(range(4 * quarter))
    expect(stage.history.numbers("start") == numbers, "each job starts once")
    expect(stage.history.numbers("end") == numbers, "each job ends once")
    expect(not stage.history.overlaps(), "jobs of a queue run one at a time")
    by = stage.history.started()
    expect(min(by["rust"], by["ferryman"]) > 0, f"both sides work: {by}")
    return [
        f"{len(numbers):,} shared jobs in {QUEUES} queues: each ran once, queues one at a time, in {took:.1f} s",
        f"  run by Rust {by['rust']:,}, by Ferryman {by['ferryman']:,}",
        "  added by both sides, half through our functions and half through the crate's",
    ]


def _add_both(stage: Stage, client: SyncClient, first: int, count: int) -> None:
    stage.rust.run("add", first=first, count=count, queues=QUEUES)
    jobs = []
    for number in range(first + count, first + 2 * count):
        queue = f"queue {number % QUEUES}"
        jobs.append(RawJobSpec("shared", {"n": number, "queue": queue}, JobSpec(queue_name=queue)))
    client.add_raw_jobs(jobs[: count // 2])
    for job in jobs[count // 2 :][:1000]:
        client.add_raw_job(job.identifier, job.payload, job.spec)
    client.add_raw_jobs(jobs[count // 2 + 1000 :])


def keys(maker: Maker) -> Sequence[str]:
    """Check one key that both sides use in every mode, first through our SQL functions, then through the crate's."""
    stage = maker.stage("keys")
    with SyncClient(stage.url) as client:
        client.migrate()
        for body in ("ours", "the crate's"):
            if body != "ours":
                stage.rust.run("migrate")
            given = stage.rust.run("add_keyed", count=KEYED_JOBS, key="one")
            for number in range(KEYED_JOBS):
                mode = list(JobKeyMode)[number % len(JobKeyMode)]
                spec = JobSpec(job_key="one", job_key_mode=mode)
                given.append(client.add_raw_job("shared", {"n": number}, spec).id)
            expect((stage.count(), len(set(given))) == (1, 1), f"a key has one job ({body}): {stage.count()}")
            client.remove_job("one")
            expect(stage.count() == 0, f"it is removed ({body})")
        stage.rust.run("manage")
        expect(stage.count() == 0, "every operation of the crate's utilities works")
    return [f"{4 * KEYED_JOBS:,} uses of one key, by both sides, through both functions: one job, never lost"]


def rust_killed(maker: Maker) -> Sequence[str]:
    """Check that the jobs of a killed Rust worker are recovered."""
    stage = maker.stage("rust_killed")
    with SyncClient(stage.url) as client:
        client.migrate()
    with stage.rust.working(**stage.settings) as victim:
        numbers = _held(stage, "rust")
        with ferryman_working(stage.url, **stage.settings, hurries=True):
            victim.kill()
            took = _recovered(stage, numbers, "ferryman")
    return [f"a Rust worker killed with {HELD_JOBS} jobs: Ferryman ran them again after {took:.1f} s"]


def ferryman_killed(maker: Maker) -> Sequence[str]:
    """Check that the jobs of a killed Ferryman worker are recovered when only a Rust worker is left."""
    stage = maker.stage("ferryman_killed")
    with SyncClient(stage.url) as client:
        client.migrate()
    with ferryman_working(stage.url, **stage.settings) as victim:
        numbers = _held(stage, "ferryman")
        with stage.rust.working(**stage.settings, hurries=True):
            victim.kill()
            took = _recovered(stage, numbers, "rust")
    return [f"a Ferryman worker killed with {HELD_JOBS} jobs: Rust ran them again after {took:.1f} s"]


def _held(stage: Stage, by: str) -> list[int]:
    stage.rust.run("add", first=0, count=HELD_JOBS, ms=FOREVER_MS, queues=2 * HELD_JOBS)
    numbers = list(range(HELD_JOBS))
    wait_for(lambda: stage.history.numbers("start", by) == numbers, f"{by} holds the jobs")
    return numbers


def _recovered(stage: Stage, numbers: list[int], by: str) -> float:
    killed_at = time.monotonic()
    wait_for(lambda: stage.history.numbers("end", by) == numbers, f"{by} has recovered the jobs")
    took = time.monotonic() - killed_at
    wait_for(lambda: stage.count() == 0, "all are completed")
    expect(stage.history.numbers("start", by) == numbers, "each ran once more")
    return took


def from_node(maker: Maker) -> Sequence[str]:
    """Check a schema that goes from Node 0.16 to Ferryman, then to Rust, which needs `give_way`, then to all three."""
    from tests.support import nodes  # noqa: PLC0415 - needs the wheel that brings Node

    stage, jobs = maker.stage("from_node"), 300
    nodes.run("0.16", "migrate", stage.url)
    with SyncClient(stage.url) as client:
        adopted = client.migrate()
        expect(
            (adopted.outcome, len(adopted.notices)) == (MigrationOutcome.ADOPTED, 1),
            "the adoption says what Rust needs",
        )
        try:
            stage.rust.run("migrate")
        except PeerError as refused:
            expect("_private_workers" in str(refused), f"Rust fails at the table of workers: {refused}")
        else:
            raise BrokenPromiseError("Rust has migrated a schema whose table of workers is there: give_way is needless")
        expect(client.schema_status().warnings, "the status says that Rust cannot go on")
        expect(client.give_way().dropped, "Ferryman gives way")
        stage.rust.run("migrate")
        done, status = client.migrate(), client.schema_status()
        found = (done.outcome, status.layout, status.revision, status.warnings)
        expect(
            found == (MigrationOutcome.NOTHING, Layout.RUST, RUST_REVISION, ()), f"Ferryman finds all it needs: {found}"
        )
        added = [{"identifier": "shared", "payload": {"n": n, "queue": None}} for n in range(jobs)]
        nodes.run("0.16", "add", stage.url, jobs=added)
        with stage.rust.working(**stage.settings), ferryman_working(stage.url, **stage.settings):
            wait_for(lambda: stage.count() == 0, "all jobs of Node's are done")
    expect(stage.history.numbers("end") == list(range(jobs)), "each job ends once")
    by = stage.history.started()
    return [
        "Node 0.16, Ferryman, Rust (refused at its revision 20), give-way, Rust, Ferryman: all go on",
        f"  {jobs} jobs of Node 0.16 then run by Rust {by['rust']}, by Ferryman {by['ferryman']}",
    ]


CHECKS = (shared_jobs, keys, rust_killed, ferryman_killed, from_node)
