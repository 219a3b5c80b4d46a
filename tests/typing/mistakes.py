"""Mistakes that a type checker must find: mypy refuses an ignore that silences nothing, so each line is a proof."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TypedDict, assert_type

from ferryman import App, JobSpec, Worker, WorkerContext, WorkerOptions, WorkerRecoveryConfig
from ferryman.cron import Cron

app = App()


@dataclass
class ImageJob:
    path: str
    width: int


class Order(TypedDict):
    number: int


@app.task
async def send_email(ctx: WorkerContext, to: str, subject: str = "Hello") -> None: ...


@app.task(max_attempts=3)
def shout(text: str) -> int:
    return len(text)


@app.task
def resize(image: ImageJob) -> None: ...


@app.task
def ship(order: Order) -> None: ...


@app.task
async def context_last(to: str, ctx: WorkerContext) -> None: ...


@app.task
@dataclass
class Charge:
    amount: int

    async def run(self, ctx: WorkerContext) -> None: ...


send_email.job()  # type: ignore[call-arg]
send_email.job(to=1)  # type: ignore[arg-type]
send_email.job(too="a@b.c")  # type: ignore[call-arg]
send_email.job("a@b.c", "Hi", "and more")  # type: ignore[call-arg]
send_email.job("a@b.c", to="a@b.c")  # type: ignore[misc]
shout.job(text=b"hi")  # type: ignore[arg-type]
resize.job({"path": "a.png", "width": 3})  # type: ignore[arg-type]
ship.job({"numer": 1})  # type: ignore[typeddict-item]
Charge(amount="3")  # type: ignore[arg-type]

# A context that is neither first nor has a default: it works, but type checkers take it for an argument of the job.
context_last.job(to="a@b.c")  # type: ignore[call-arg]

send_email.enqueue_sync()  # type: ignore[call-arg]
send_email.enqueue(to="a@b.c")  # type: ignore[unused-coroutine]
send_email.enqueue_sync(to=1)  # type: ignore[arg-type]
send_email.options(delay=5)  # type: ignore[arg-type]
send_email.options(to="a@b.c")  # type: ignore[call-arg]
send_email.options(priority=1).enqueue_sync(too="a@b.c")  # type: ignore[call-arg]
send_email.options(priority=1).enqueue_sync("a@b.c", "Hi", "and more")  # type: ignore[call-arg]

app.task(aliases=[1])  # type: ignore[list-item]
app.task(upgrade=len)  # type: ignore[arg-type]
app.task(max_atempts=3)  # type: ignore[call-overload]
app.task(flags=[1])  # type: ignore[list-item]


async def calls(ctx: WorkerContext) -> None:
    await send_email(to="a@b.c")  # type: ignore[call-arg]
    await send_email(ctx)  # type: ignore[call-arg]
    shout(1)  # type: ignore[arg-type]
    assert_type(shout("hi"), str)  # type: ignore[assert-type]


Cron.daily_at(shout, 8, 0, timezone="UTC")  # type: ignore[call-arg]
Cron.daily_at(shout, "8", 0)  # type: ignore[arg-type]
app.cron("0 8 * * *", fill=5)  # type: ignore[arg-type]

WorkerRecoveryConfig().sweep_threshold(60)  # type: ignore[arg-type]
WorkerRecoveryConfig().on_crash("ignore")  # type: ignore[arg-type]
WorkerRecoveryConfig().sweep_treshold(60)  # type: ignore[attr-defined]
WorkerRecoveryConfig(max_crashes="3")  # type: ignore[arg-type]


async def adds() -> None:
    async with app.client() as client:
        client.add_job(shout.job("hi"))  # type: ignore[unused-coroutine]
        await client.add_job()  # type: ignore[call-arg]
        await client.add_job(shout)  # type: ignore[arg-type]
        await client.add_job(send_email)  # type: ignore[arg-type]
        await client.add_job("shout")  # type: ignore[arg-type]
        await client.add_job({"text": "hi"})  # type: ignore[arg-type]
        await client.add_job(ImageJob("a.png", 3))  # type: ignore[arg-type]
        await client.add_job(shout("hi"))  # type: ignore[arg-type]
        await client.add_job(shout.job("hi"), timedelta(1))  # type: ignore[arg-type]
        await client.add_job(shout.job("hi"), notify="no")  # type: ignore[arg-type]
        await client.add_job(shout.job("hi"), usng=None)  # type: ignore[call-arg]
        await client.add_jobs(shout.job("hi"))  # type: ignore[arg-type]
        await client.add_jobs(["shout"])  # type: ignore[list-item]
        await client.add_jobs([(shout.job("hi"), timedelta(1))])  # type: ignore[list-item]
        await client.schedules.pause(1)  # type: ignore[arg-type]
    with app.sync_client() as blocking:
        await blocking.add_job(shout.job("hi"))  # type: ignore[misc]
        blocking.add_job(ImageJob("a.png", 3), JobSpec())  # type: ignore[arg-type]
        blocking.add_jobs([{"text": "hi"}])  # type: ignore[list-item]
        blocking.list_jobs(task="shout", limt=3)  # type: ignore[call-arg]


Worker(app, concurency=3)  # type: ignore[call-arg]
Worker(app, concurrency="3")  # type: ignore[arg-type]
Worker(app, poll_interval=2)  # type: ignore[arg-type]
Worker(app, WorkerOptions(), sweep_treshold=timedelta(1))  # type: ignore[call-arg]
WorkerOptions(concurency=3)  # type: ignore[call-arg]
