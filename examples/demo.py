"""What Ferryman does, shown on a private PostgreSQL in twenty seconds: `make demo`.

Every line of the table at the end is checked, against the database or what the workers have noted outside of it; the
exit code is 1 if one of them is not so.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import second_act
from rich.box import ROUNDED
from rich.console import Console
from rich.table import Table
from rich.text import Text
from stage import Stage

from ferryman import App, CleanupTask, JobSpec, JobState, RescheduleJobOptions
from ferryman.embedded import EmbeddedPostgres
from ferryman.errors import FerrymanError, InvalidPayloadError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MANY = 10_000

app = App()


@app.task
async def send_email(to: str, subject: str = "Hello") -> None: ...


@app.task(max_attempts=3)
def charge(order: int, cents: int) -> None: ...


@app.task
def index(pages: list[str]) -> None: ...


def refuse_a_mistake(stage: Stage) -> None:
    stage.chapter("A wrong argument never reaches the queue", 'client.add_job(send_email.job(too="ann@example.com"))')
    try:
        stage.client.add_job(send_email.job(too="ann@example.com"))  # type: ignore[call-arg]
    except InvalidPayloadError as error:
        stage.tell(str(error))
    stage.check("a wrong argument added nothing", 0, stage.client.counts().total)


def add_one(stage: Stage) -> None:
    stage.chapter("One job", 'client.add_job(send_email.job(to="ann@example.com"), JobSpec(queue_name="user:1"))')
    job = stage.client.add_job(send_email.job(to="ann@example.com"), JobSpec(queue_name="user:1"))
    stage.tell(f"job {job.id} is {job.state.value}, with payload {job.payload_json}")
    stored = stage.ask("select payload ->> 'to' from graphile_worker._private_jobs where id = %s", job.id)
    stage.check("its payload is in Graphile's table", "ann@example.com", stored)


def replace_by_key(stage: Stage) -> None:
    stage.chapter(
        "The same key again replaces the waiting job",
        'for cents in (500, 700):\n    client.add_job(charge.job(order=7, cents=cents), JobSpec(job_key="order:7"))',
    )
    for cents in (500, 700):
        job = stage.client.add_job(charge.job(order=7, cents=cents), JobSpec(job_key="order:7"))
    found = stage.client.list_jobs(job_key="order:7").jobs
    stage.tell(f"one job, id {job.id}, payload {job.payload_json}, at most {job.max_attempts} attempts")
    stage.check("two adds with one key are one job, the later one", [700], [item.payload["cents"] for item in found])


def gather_a_batch(stage: Stage) -> None:
    stage.chapter(
        "Items with one key gather in one job",
        'client.add_batch_job(index, ["a.html", "b.html"], JobSpec(job_key="index"))\n'
        'client.add_batch_job(index, ["c.html"], JobSpec(job_key="index"))',
    )
    stage.client.add_batch_job(index, ["a.html", "b.html"], JobSpec(job_key="index"))
    job = stage.client.add_batch_job(index, ["c.html"], JobSpec(job_key="index"))
    stage.tell(f"job {job.id} holds {job.payload_json}")
    found = [item.payload for item in stage.client.list_jobs(task="index").jobs]
    stage.check("a batch gathers its items", [["a.html", "b.html", "c.html"]], found)


def schedule(stage: Stage) -> None:
    stage.chapter("Later", "client.add_job(…, JobSpec(run_at=datetime.now(UTC) + timedelta(hours=1)))")
    spec = JobSpec(run_at=datetime.now(UTC) + timedelta(hours=1))
    job = stage.client.add_job(send_email.job(to="bob@example.com"), spec)
    stage.tell(f"job {job.id} waits until {job.run_at:%H:%M:%S} UTC")
    scheduled = stage.client.list_jobs(state=JobState.SCHEDULED).jobs
    stage.check("a job for later is scheduled, not ready", [job.id], [item.id for item in scheduled])


def add_in_a_transaction(stage: Stage) -> None:
    stage.chapter(
        "In your own transaction: the order and its job are stored together, or not at all",
        'connection.execute("insert into orders …")\nclient.add_job(charge.job(…), using=connection)',
    )
    stage.database.execute("create table orders (id int primary key)")
    before = stage.client.counts().total
    for number, is_kept in ((1, False), (2, True)):
        with stage.database.transaction(force_rollback=not is_kept):
            stage.database.execute("insert into orders values (%s)", [number])
            stage.client.add_job(charge.job(order=number, cents=100), using=stage.database)
    orders = stage.ask("select array_agg(id) from orders")
    added = stage.client.counts().total - before
    stage.tell(f"rolled back: order 1 and its job. Committed: order 2 and its job. Orders now: {orders}")
    stage.check("a rolled back transaction took its job along", ([2], 1), (orders, added))


def add_many(stage: Stage) -> None:
    stage.chapter(f"{MANY:,} jobs at once, all or none", f"client.add_jobs(send_email.job(…) for _ in range({MANY:_}))")
    started = time.perf_counter()
    jobs = stage.client.add_jobs(send_email.job(to=f"user{number}@example.com") for number in range(MANY))
    seconds = time.perf_counter() - started
    stage.tell(f"{len(jobs):,} jobs in {seconds:.2f} s: {len(jobs) / seconds:,.0f} jobs per second")
    stored = stage.ask("select count(*) from graphile_worker._private_jobs where id >= %s", jobs[0].id)
    stage.check(f"{MANY:,} jobs were stored", MANY, stored)
    last = stage.ask("select payload ->> 'to' from graphile_worker._private_jobs where id = %s", jobs[-1].id)
    stage.check("their ids came back in the order given", f"user{MANY - 1}@example.com", last)


def share_with_others(stage: Stage) -> None:
    stage.chapter("Other languages use the same tables", "select graphile_worker.add_job('from_node', '{\"n\": 1}')")
    stage.database.execute("select graphile_worker.add_job('from_node', '{\"n\": 1}')")
    found = stage.client.list_jobs(task="from_node").jobs
    stage.tell(f"job {found[0].id} of {found[0].task_identifier}, added by SQL, is a job like any other")
    stage.check("a job that SQL added is seen", [{"n": 1}], [job.payload for job in found])


def look(stage: Stage) -> None:
    stage.console.print(Text("\nOn the command line", "bold cyan"))
    stage.console.print(Text("$ ferryman jobs list --limit 5", "bold"))
    colour = {"FORCE_COLOR": "1"} if stage.console.is_terminal else {}
    program = [sys.executable, "-m", "ferryman.cli", "jobs", "list", "--limit", "5"]
    environment = {**os.environ, **colour, "COLUMNS": str(stage.console.width)}
    ran = subprocess.run(program, env=environment, capture_output=True, text=True, check=False)  # noqa: S603 - our own
    stage.console.print(Text.from_ansi(ran.stdout.rstrip()), soft_wrap=True)
    stage.check("`ferryman jobs list` succeeded", (0, ""), (ran.returncode, ran.stderr))


def change(stage: Stage) -> None:
    stage.chapter(
        "Change what waits",
        "client.reschedule_jobs([a], RescheduleJobOptions(priority=-10))\n"
        'client.permanently_fail_jobs([b], "no such mailbox")\nclient.complete_jobs([c])\n'
        'client.remove_job("order:7")',
    )
    client = stage.client
    a, b, c = (job.id for job in client.list_jobs(task="send_email", state="ready", limit=3).jobs)
    client.reschedule_jobs([a], RescheduleJobOptions(priority=-10))
    client.permanently_fail_jobs([b], "no such mailbox")
    client.complete_jobs([c])
    removed = client.remove_job("order:7")
    stage.tell(f"job {a} runs first, {b} has failed, {c} is done, {removed and removed.id} is gone")
    rescheduled, failed = client.get_job(a), client.get_job(b)
    stage.check("a rescheduled job has its new priority", -10, rescheduled and rescheduled.priority)
    stage.check("a failed job keeps its reason", "no such mailbox", failed and failed.last_error)
    stage.check("a completed job is gone", None, client.get_job(c))
    stage.check("a removed key is free", [], client.list_jobs(job_key="order:7").jobs)


def clean_up(stage: Stage) -> None:
    stage.chapter("Clear away what nobody needs", "client.cleanup(CleanupTask)")
    stage.client.complete_jobs(job.id for job in stage.client.list_jobs(queue_name="user:1").jobs)
    cleaned = stage.client.cleanup(CleanupTask)
    stage.tell(f"failed jobs: {cleaned.failed_jobs}, unused queues: {', '.join(cleaned.queue_names)}")
    stage.check("failed jobs were deleted", 0, stage.client.counts().failed)
    stage.check("the queue that nobody uses was deleted", ("user:1",), cleaned.queue_names)


FIRST_ACT: tuple[Callable[[Stage], None], ...] = (
    refuse_a_mistake,
    add_one,
    replace_by_key,
    gather_a_batch,
    schedule,
    add_in_a_transaction,
    share_with_others,
    look,
    add_many,
    change,
    clean_up,
)


@contextmanager
def private_server() -> Iterator[EmbeddedPostgres]:
    """A server in a folder that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="ferryman-demo-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o711)  # when we are root, PostgreSQL runs under another account
        # Without lingering, leaving the block waits until the server is down, and the folder can go.
        with EmbeddedPostgres(Path(folder) / "postgres", linger=timedelta(0)) as server:
            os.environ["DEMO_HISTORY"] = f"{folder}/history"
            yield server


def tell_result(stage: Stage, seconds: float) -> None:
    table = Table(
        title="What the database and the notes of the workers say",
        title_style="bold cyan",
        show_header=False,
        box=ROUNDED,
    )
    for fact in stage.facts:
        if fact.is_so:
            table.add_row(Text("✓", "bold green"), fact.claim)
        else:
            table.add_row(Text("✗", "bold red"), Text(f"{fact.claim}: expected {fact.expected}, found {fact.found}"))
    stage.console.print("", table)
    true = sum(fact.is_so for fact in stage.facts)
    stage.console.print(Text(f"{true} of {len(stage.facts)} are as they should be, after {seconds:.1f} s.", "bold"))


def main() -> int:
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a poor terminal shows question marks instead of ticks
    recording = os.environ.get("DEMO_RECORDING")  # a file name ending in .svg: how the picture in the README is made
    console = Console(highlight=False, record=recording is not None, width=88 if recording else None)
    started = time.perf_counter()
    console.print(Text("Ferryman: durable background jobs on PostgreSQL", "bold magenta"))
    with private_server() as server:
        os.environ["DATABASE_URL"] = server.dsn
        with app.sync_client() as client, psycopg.connect(server.dsn, autocommit=True) as database:
            done = client.migrate()
            stage = Stage(console, client, database)
            ready = time.perf_counter() - started
            stage.tell(
                f"a private PostgreSQL with revision {done.revision} of the schema was ready after {ready:.1f} s"
            )
            stage.check("the schema can be used", True, client.schema_status().compatible)
            for chapter in FIRST_ACT:
                chapter(stage)
            if recording:
                console.export_text()  # which forgets it: the picture begins with the second act
            second_act.perform(stage)
        tell_result(stage, time.perf_counter() - started)
    if recording:
        picture = console.export_svg(title="make demo")
        # A picture that fetches nothing: any monospaced font will do.
        Path(recording).write_text(re.sub(r"@font-face \{.*?\}\s*|<!--.*?-->", "", picture, flags=re.DOTALL))
    return 0 if all(fact.is_so for fact in stage.facts) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except FerrymanError as error:
        sys.exit(f"The demo could not go on: {error}")
