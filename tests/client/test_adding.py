"""Adding jobs through both clients."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, LiteralString

import psycopg
import pytest

from ferryman import (
    App,
    Client,
    Job,
    JobKeyMode,
    JobSpec,
    JobState,
    RawJobSpec,
    SyncClient,
)
from ferryman.database.connections import OwnAsyncConnection
from ferryman.errors import InvalidJobError, InvalidPayloadError
from ferryman.hooks import BeforeJobSchedule, HookRegistry

if TYPE_CHECKING:
    from collections.abc import Sequence

IN_AN_HOUR = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)


async def test_a_job_gets_the_defaults_of_the_database(client: Client) -> None:
    job = await client.add_raw_job("send_email", {"to": "a@b.c"})

    assert job.task_identifier == "send_email"
    assert job.payload == {"to": "a@b.c"}
    assert (job.priority, job.attempts, job.max_attempts, job.revision) == (0, 0, 25, 0)
    assert (job.queue_name, job.key, job.locked_at, job.locked_by, job.last_error) == (None,) * 5
    assert job.flags == ()
    assert job.state is JobState.READY
    assert job.run_at == job.created_at == job.updated_at


async def test_a_delay_counts_from_the_moment_at_which_the_database_stores_the_job(client: Client) -> None:
    two_hours = timedelta(hours=2)
    deduped = JobSpec(job_key="u", job_key_mode=JobKeyMode.UNSAFE_DEDUPE, delay=two_hours)
    together = [("a", JobSpec(delay=two_hours)), ("b", JobSpec()), ("c", JobSpec(job_key="c", delay=two_hours))]

    jobs = [
        await client.add_raw_job("x", {}, JobSpec(delay=two_hours)),
        await client.add_raw_job("x", {}, JobSpec(job_key="k", delay=two_hours)),
        await client.add_raw_job("x", {}, deduped),
        *await client.add_raw_jobs(RawJobSpec(name, {}, spec) for name, spec in together),
    ]

    assert [await client.get_job(job.id) for job in jobs] == jobs
    waits = [job.run_at - job.created_at for job in jobs]
    assert waits == [two_hours, two_hours, two_hours, two_hours, timedelta(), two_hours]


async def test_a_delay_counts_by_the_clock_of_this_machine_where_that_is_used(database: str) -> None:
    async with Client(database, use_local_time=True) as client:
        before = datetime.now(UTC)
        job = await client.add_raw_job("x", {}, JobSpec(delay=timedelta(hours=2)))

    assert before <= job.run_at - timedelta(hours=2) <= datetime.now(UTC)


async def test_jobs_of_one_key_that_keep_their_time_keep_the_delay_of_the_first(client: Client) -> None:
    keep = JobKeyMode.PRESERVE_RUN_AT
    specs = [JobSpec(job_key="k", job_key_mode=keep, delay=timedelta(hours=hours)) for hours in (1, 2)]

    jobs = await client.add_raw_jobs(RawJobSpec("x", {}, spec) for spec in specs)

    assert [job.run_at - job.created_at for job in jobs] == [timedelta(hours=1)] * 2


async def test_what_add_job_returns_is_what_the_database_holds(client: Client) -> None:
    spec = JobSpec(queue_name="user:1", run_at=IN_AN_HOUR, max_attempts=3, priority=-10, flags=["b", "a"])

    plain = await client.add_raw_job("send_email", [1, {"x": None}], spec)
    keyed = await client.add_raw_job("send_email", {}, JobSpec(job_key="k", flags=["z"]))
    deduped = await client.add_raw_job(
        "send_email", {}, JobSpec(job_key="u", job_key_mode=JobKeyMode.UNSAFE_DEDUPE, run_at=IN_AN_HOUR)
    )

    for job in (plain, keyed, deduped):
        assert await client.get_job(job.id) == job
    assert plain.state is JobState.SCHEDULED
    assert (plain.queue_name, plain.max_attempts, plain.priority, plain.flags) == ("user:1", 3, -10, ("a", "b"))


async def test_what_add_jobs_returns_is_what_the_database_holds(client: Client) -> None:
    specs = [
        RawJobSpec("one", {"n": 1}),
        RawJobSpec("two", {"n": 2}, JobSpec(queue_name="q", priority=5)),
        RawJobSpec("one", {"n": 3}, JobSpec(job_key="k", flags=["f"])),
        RawJobSpec("three", [4], JobSpec(run_at=IN_AN_HOUR, max_attempts=1)),
        RawJobSpec("two", {"n": 5}, JobSpec(queue_name="q", priority=5)),
    ]

    jobs = await client.add_raw_jobs(specs)

    assert [(job.task_identifier, job.payload) for job in jobs] == [(spec.identifier, spec.payload) for spec in specs]
    assert [await client.get_job(job.id) for job in jobs] == jobs


async def test_jobs_added_together_have_ascending_ids_in_input_order(client: Client) -> None:
    jobs = await client.add_raw_jobs([RawJobSpec(f"task_{n % 3}", n) for n in range(500)])

    assert [job.payload for job in jobs] == list(range(500))
    assert [job.id for job in jobs] == sorted(job.id for job in jobs)


async def test_a_hundred_thousand_jobs_go_in_with_one_call(client: Client) -> None:
    jobs = await client.add_raw_jobs(
        RawJobSpec("bulk", {"n": n}, JobSpec(queue_name=f"q{n % 7}")) for n in range(100_000)
    )

    assert len({job.id for job in jobs}) == 100_000
    assert (await client.counts()).ready == 100_000
    assert [job.payload["n"] for job in jobs[:3] + jobs[-3:]] == [0, 1, 2, 99_997, 99_998, 99_999]


async def test_many_jobs_go_in_with_one_statement(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[str] = []
    fetch = OwnAsyncConnection.fetch

    async def note(
        self: OwnAsyncConnection, text: LiteralString, values: Sequence[Any] | None = None, **how: Any
    ) -> Any:
        sent.append(text)
        return await fetch(self, text, values, **how)

    monkeypatch.setattr(OwnAsyncConnection, "fetch", note)
    plain = await client.add_raw_jobs([RawJobSpec("x", n, JobSpec(queue_name=f"q{n % 3}")) for n in range(500)])
    assert (len(plain), len(sent)) == (500, 1)


async def test_large_payloads_are_split_over_several_statements(client: Client) -> None:
    text = "x" * 1_000_000
    jobs = await client.add_raw_jobs([RawJobSpec("bulk", {"n": n, "text": text}) for n in range(40)])

    assert [job.payload["n"] for job in jobs] == list(range(40))
    assert (await client.counts()).total == 40


async def test_a_bulk_add_is_all_or_nothing(client: Client, connection: psycopg.Connection) -> None:
    connection.execute("alter table graphile_worker._private_jobs add check (payload::text <> '\"bad\"')")
    jobs = [RawJobSpec("bulk", "good")] * 6_000 + [RawJobSpec("bulk", "bad")]

    with pytest.raises(Exception, match="violates check constraint"):
        await client.add_raw_jobs(jobs)

    assert (await client.counts()).total == 0


async def test_adding_no_jobs_is_fine(client: Client) -> None:
    assert await client.add_jobs([]) == []
    assert await client.add_raw_jobs([]) == []


def test_the_blocking_client_does_the_same(sync_client: SyncClient) -> None:
    one = sync_client.add_raw_job("send_email", {"to": "x"}, JobSpec(job_key="k"))
    many = sync_client.add_raw_jobs([RawJobSpec("send_email", n) for n in range(3)])

    assert sync_client.get_job(one.id) == one
    assert [job.payload for job in many] == [0, 1, 2]
    assert sync_client.counts().total == 4


async def test_a_typed_job_takes_the_settings_of_its_task(database: str) -> None:
    app = App(database)

    @app.task(max_attempts=3, priority=7, queue_name="mail")
    async def send_email(to: str, subject: str = "hello") -> None: ...

    async with app.client() as client:
        plain = await client.add_job(send_email.job(to="a@b.c"))
        urgent = await client.add_job(send_email.job("a@b.c"), JobSpec(priority=-1))
        pair, alone = await client.add_jobs([(send_email.job(to="x"), JobSpec(max_attempts=9)), send_email.job("y")])

    assert (plain.task_identifier, plain.max_attempts, plain.priority, plain.queue_name) == ("send_email", 3, 7, "mail")
    assert (urgent.max_attempts, urgent.priority) == (3, -1)
    assert (pair.max_attempts, alone.max_attempts) == (9, 3)


async def test_no_payload_is_an_empty_object(client: Client) -> None:
    assert (await client.add_raw_job("tick")).payload == {}


async def test_payloads_come_back_exactly(client: Client) -> None:
    payload = {"int": 2**70, "float": 0.1, "text": 'naïve 🚢 \u2028 "\\', "deep": [[[None, True, {"": ""}]]]}

    assert (await client.add_raw_job("x", payload)).payload == payload
    [job] = (await client.list_jobs()).jobs
    assert job.payload == payload


async def test_a_payload_over_the_limit_is_refused_and_nothing_is_added(database: str) -> None:
    app = App(database, max_payload_bytes=100)
    async with app.client() as client:
        with pytest.raises(InvalidPayloadError, match="has 203 bytes, and the limit is 100"):
            await client.add_raw_job("x", "é" * 100 + "a")
        assert (await client.counts()).total == 0


async def test_unsafe_dedupe_is_refused_in_bulk(client: Client) -> None:
    spec = JobSpec(job_key="k", job_key_mode=JobKeyMode.UNSAFE_DEDUPE)

    with pytest.raises(InvalidJobError, match="UNSAFE_DEDUPE"):
        await client.add_raw_jobs([RawJobSpec("x", {}), RawJobSpec("x", {}, spec)])

    app = App("postgresql://unused")

    @app.task
    def typed() -> None: ...

    with pytest.raises(InvalidJobError, match="UNSAFE_DEDUPE"):
        await client.add_jobs([typed.job(), (typed.job(), spec)])

    assert (await client.counts()).total == 0


async def test_of_jobs_with_one_key_in_a_call_the_last_one_wins(client: Client) -> None:
    jobs = await client.add_raw_jobs(
        [
            RawJobSpec("x", {"n": 1}, JobSpec(job_key="k")),
            RawJobSpec("x", {"n": 2}, JobSpec(job_key="other")),
            RawJobSpec("y", {"n": 3}, JobSpec(job_key="k", priority=4)),
        ]
    )

    assert jobs[0] == jobs[2]
    assert (jobs[0].task_identifier, jobs[0].payload, jobs[0].priority) == ("y", {"n": 3}, 4)
    assert (await client.counts()).total == 2


async def test_lists_with_one_key_in_a_call_are_joined(client: Client) -> None:
    specs = [RawJobSpec("x", items, JobSpec(job_key="k")) for items in ([1], [], [2, 3])]

    jobs = await client.add_raw_jobs(specs)

    assert [job.payload for job in jobs] == [[1, 2, 3]] * 3


async def test_preserve_run_at_in_a_call_holds_for_the_whole_call(client: Client) -> None:
    first = await client.add_raw_job("x", 1, JobSpec(job_key="a", run_at=IN_AN_HOUR))
    await client.add_raw_job("x", 1, JobSpec(job_key="b", run_at=IN_AN_HOUR))
    preserve = JobSpec(job_key="a", job_key_mode=JobKeyMode.PRESERVE_RUN_AT)

    a, b = await client.add_raw_jobs([RawJobSpec("x", 2, preserve), RawJobSpec("x", 2, JobSpec(job_key="b"))])

    assert (a.id, a.run_at, a.payload) == (first.id, IN_AN_HOUR, 2)
    assert b.run_at == IN_AN_HOUR


async def test_batch_items_gather_under_a_key_while_the_job_waits(client: Client) -> None:
    first = await client.add_batch_job("import_rows", [{"n": 1}], JobSpec(job_key="rows"))
    second = await client.add_batch_job("import_rows", [{"n": 2}, {"n": 3}], JobSpec(job_key="rows"))

    assert second.id == first.id
    assert second.payload == [{"n": 1}, {"n": 2}, {"n": 3}]
    assert second.revision == 1


async def test_a_batch_job_without_items_is_refused(client: Client) -> None:
    with pytest.raises(InvalidJobError, match="batch job payload must contain at least one item"):
        await client.add_batch_job("import_rows", [])


async def test_local_time_is_used_only_when_asked_for(database: str) -> None:
    async with Client(database, use_local_time=True) as client:
        before = datetime.now(UTC)
        job = await client.add_raw_job("x")
        [listed] = await client.add_raw_jobs([RawJobSpec("x", {})])
        after = datetime.now(UTC)

    assert before <= job.run_at <= after
    assert before <= listed.run_at <= after
    assert job.run_at != job.created_at


async def test_any_time_zone_means_the_same_instant(client: Client) -> None:
    odd = timezone(timedelta(hours=-3, minutes=-30, seconds=-12))
    at = datetime(2031, 1, 2, 3, 4, 5, 678901, tzinfo=odd)

    for add in (
        client.add_raw_job("x", {}, JobSpec(run_at=at)),
        client.add_raw_job("x", {}, JobSpec(run_at=at, job_key="k")),
    ):
        job = await add
        assert (await client.get_job(job.id)).run_at == at  # type: ignore[union-attr]
    [job] = await client.add_raw_jobs([RawJobSpec("x", {}, JobSpec(run_at=at))])
    assert (await client.get_job(job.id)).run_at == at  # type: ignore[union-attr]


async def test_idle_workers_are_told_unless_the_caller_wants_quiet(client: Client, database: str) -> None:
    async with await psycopg.AsyncConnection.connect(database, autocommit=True) as listener:
        await listener.execute('listen "jobs:insert"')

        await client.add_raw_job("quiet", {}, notify=False)
        await client.add_raw_jobs([RawJobSpec("quiet", {})] * 3, notify=False)
        await client.add_raw_job("loud")
        await client.add_raw_jobs([RawJobSpec("loud", {})] * 3)
        await client.add_raw_job("loud", {}, JobSpec(job_key="k"))

        heard = [json.loads(notice.payload)["count"] async for notice in listener.notifies(stop_after=3, timeout=60)]
    assert heard == [1, 3, 1]


async def test_many_producers_introduce_the_same_tasks_and_queues_at_once(database: str) -> None:
    async with Client(database, max_connections=20) as client:

        async def produce(number: int) -> list[Job]:
            names = range(30) if number % 2 else range(29, -1, -1)
            return await client.add_raw_jobs(
                [RawJobSpec(f"task_{name}", {}, JobSpec(queue_name=f"queue_{name}")) for name in names]
            )

        batches = await asyncio.gather(*(produce(number) for number in range(20)))
        singles = await asyncio.gather(
            *(client.add_raw_job("fresh", number, JobSpec(queue_name="fresh")) for number in range(50))
        )

        assert len({job.id for batch in batches for job in batch}) == 600
        assert len({job.id for job in singles}) == 50
        assert (await client.counts()).total == 650


@dataclass
class Options:
    colour: str


RED = Options("red")


@pytest.mark.parametrize("has_hook", [False, True])
@pytest.mark.parametrize(
    "spec", [JobSpec(), JobSpec(job_key="k"), JobSpec(job_key="d", job_key_mode=JobKeyMode.UNSAFE_DEDUPE)]
)
async def test_a_payload_that_stands_for_a_default_stays_null_with_a_key_or_a_hook(
    database: str, connection: psycopg.Connection, spec: JobSpec, *, has_hook: bool
) -> None:
    app = App(database)

    @app.task
    def paint(options: Options = RED) -> None: ...

    hooks = HookRegistry()
    if has_hook:
        hooks.on(BeforeJobSchedule, lambda _event: None)
    async with app.client(hooks=hooks) as client:
        one = await client.add_job(paint.job(), spec)
        many = [] if spec.job_key_mode is JobKeyMode.UNSAFE_DEDUPE else await client.add_jobs([(paint.job(), spec)])

    stored = connection.execute("select distinct payload::text from graphile_worker._private_jobs").fetchall()
    assert [job.payload for job in [one, *many]] == [None] * (1 + len(many))
    assert stored == [("null",)]
