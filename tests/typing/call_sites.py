"""Task definitions and calls as users write them. Checked by mypy and pyright, never run."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypedDict, assert_type

from ferryman import (
    App,
    Job,
    JobSpec,
    NewJob,
    Schedule,
    Worker,
    WorkerContext,
    WorkerOptions,
    WorkerRecoveryConfig,
)
from ferryman.context import CONTEXT
from ferryman.cron import Cron, Crontab, CrontabFill, CrontabTimer, parse_crontab

app = App()


@dataclass
class ImageJob:
    path: str
    width: int


class Order(TypedDict):
    number: int


@app.task
async def send_email(ctx: WorkerContext, to: str, subject: str = "Hello") -> None: ...


@app.task(identifier="shout", max_attempts=3, priority=5, queue_name="loud", flags=["voice"])
def shout(text: str) -> int:
    return len(text)


@app.task
def add_more(ctx: WorkerContext) -> Job:
    return ctx.sync_client.add_job(shout.job(text="hi"))


@app.task
async def with_default(to: str, ctx: WorkerContext = CONTEXT) -> None: ...


@app.task
async def with_optional(to: str, ctx: WorkerContext | None = None) -> None: ...


@app.task
def resize(image: ImageJob) -> None: ...


@app.task
def ship(order: Order) -> None: ...


@app.task
def anything(payload: dict[str, Any]) -> None: ...


@app.task
def any_first(value: Any, other: int) -> None: ...


@app.task
def no_payload() -> None: ...


@app.task(aliases=["borrow"], upgrade=lambda payload: {**payload, "queue_name": ""})
def borrows(using: str, queue_name: str, delay: int = 0) -> None: ...


@app.task
def named_only(*, to: str) -> None: ...


@app.task
def collects(first: int, **others: str) -> None: ...


@app.task
@dataclass
class Charge:
    amount: int

    async def run(self, ctx: WorkerContext) -> None: ...


@app.task(identifier="refund", max_attempts=2)
@dataclass
class Refund:
    amount: int

    def run(self) -> None: ...


assert_type(send_email.job(to="a@b.c"), NewJob)
assert_type(send_email.job("a@b.c", "Hi"), NewJob)
assert_type(shout.job(text="hi"), NewJob)
assert_type(with_default.job(to="a@b.c"), NewJob)
assert_type(with_optional.job("a@b.c"), NewJob)
assert_type(resize.job(ImageJob("a.png", 3)), NewJob)
assert_type(resize.job(image=ImageJob("a.png", 3)), NewJob)
assert_type(ship.job({"number": 1}), NewJob)
assert_type(anything.job({"any": "thing"}), NewJob)
assert_type(no_payload.job(), NewJob)
assert_type(named_only.job(to="a@b.c"), NewJob)
assert_type(collects.job(1, more="text"), NewJob)
assert_type(Charge(amount=3), Charge)
assert_type(Refund(amount=3), Refund)
assert_type(app.tasks["refund"].job(amount=3), NewJob)
any_first.job(value=1, other=2)


async def calls(ctx: WorkerContext) -> None:
    assert_type(shout("hi"), int)
    assert_type(shout(text="hi"), int)
    assert_type(await send_email(ctx, to="a@b.c"), None)
    assert_type(await send_email(ctx, "a@b.c", subject="Hi"), None)
    await with_default("a@b.c", ctx)
    await with_default("a@b.c")
    await Charge(amount=3).run(ctx)


async def enqueues(ctx: WorkerContext) -> None:
    assert_type(await send_email.enqueue(to="a@b.c"), Job)
    assert_type(await send_email.enqueue("a@b.c", "Hi"), Job)
    assert_type(shout.enqueue_sync(text="hi"), Job)
    assert_type(await resize.enqueue(ImageJob("a.png", 3)), Job)
    assert_type(await with_default.enqueue("a@b.c"), Job)
    assert_type(await borrows.enqueue(using="x", queue_name="y", delay=1), Job)
    assert_type(await borrows.options(using=object(), delay=timedelta(1)).enqueue(using="x", queue_name="y"), Job)
    assert_type(send_email.options(queue_name="mail", flags=["slow"]).enqueue_sync(to="a@b.c"), Job)
    assert_type(app.tasks["refund"].enqueue_sync(amount=3), Job)


async def adds() -> None:
    async with app.client() as client:
        await client.add_job(send_email.job(to="a@b.c"))
        await client.add_job(Charge(amount=3), JobSpec(delay=timedelta(minutes=5)))
        assert_type(await client.add_job(shout.job("hi"), using=object()), Job)
        assert_type(await client.add_jobs([shout.job("hi"), Charge(amount=3)], notify=False), list[Job])
        assert_type(await client.add_jobs([(shout.job("hi"), JobSpec()), (Charge(amount=3), None)]), list[Job])
        await client.add_jobs((shout.job(text), JobSpec(priority=1)) for text in "ab")
        await client.add_jobs(Refund(amount=n) for n in range(3))
        assert_type(await client.schedules.list(), list[Schedule])
    with app.sync_client(use_local_time=True) as blocking:
        assert_type(blocking.add_job(shout.job("hi")), Job)
        blocking.add_jobs([Charge(amount=3), Refund(amount=4)])
        assert_type(blocking.schedules.run_now("morning"), Job)


@app.cron("0 8 * * *", id="morning", fill=CrontabFill.hours(2), payload={"text": "hi"})
@app.task
def scheduled(text: str) -> int:
    return len(text)


assert_type(scheduled("hi"), int)
assert_type(app.crontabs, list[Crontab])
assert_type(Cron.daily_at(scheduled, 8, 0, payload=scheduled.job("hi"), time_zone="Europe/Paris"), Crontab)
assert_type(Cron.from_timer("elsewhere", CrontabTimer(minutes={0, 30})), Crontab)
assert_type(parse_crontab("0 4 * * * backup"), list[Crontab])

chained = WorkerRecoveryConfig().sweep_threshold(timedelta(minutes=1)).max_crashes(None).on_crash("fail")
assert_type(chained.resilient_job_flags(["important"]).enabled(False), WorkerRecoveryConfig)

Worker(app)
Worker(
    app, concurrency=3, poll_interval=timedelta(seconds=1), tasks=["shout"], heartbeat_interval=timedelta(seconds=10)
)
Worker(app, WorkerOptions(concurrency=3), sweep_threshold=timedelta(minutes=5), local_queue=None)
