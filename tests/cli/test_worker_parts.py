"""The parts of `ferryman worker` that need no process: probes, the status line, log lines, changed files."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import socket
import urllib.request
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING

import click
import pytest

from ferryman import App, WorkerOptions, WorkerRecoveryConfig, WorkerShutdownConfig
from ferryman.cli.event_loops import loop_factory
from ferryman.cli.worker import probes, vitals
from ferryman.cli.worker.log_output import JsonFormatter, TextFormatter, has_colours
from ferryman.cli.worker.plan import Plan
from ferryman.cli.worker.probes import serve_probes
from ferryman.cli.worker.status_board import CLEAR_LINE, AboveStatusLine, StatusBoard, StatusLine
from ferryman.cli.worker.supervisor import PythonFiles, Supervisor
from ferryman.cli.worker.vitals import LONGEST_SILENCE_SECONDS, Counts, Vitals, liveness, readiness
from ferryman.errors import ConfigurationError
from ferryman.hooks import FailureReason, HookRegistry, JobComplete, JobFail, JobInterrupted
from ferryman.jobs import Job, JobState
from ferryman.worker import LocalQueueConfig, RefetchDelayConfig
from tests.support.commands import probe
from tests.support.server import reachable_folder
from tests.support.waiting import until_blocking

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MINUTE = timedelta(minutes=1)
NOW = datetime.now(UTC)
JOB = Job(1, "t", "{}", None, 0, NOW, 1, 25, None, NOW, NOW, None, NOW, "dead", 0, (), JobState.RUNNING)


def test_a_loop_that_is_silent_for_too_long_is_not_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(vitals, "time", SimpleNamespace(monotonic=lambda: now))
    silent, loud = Vitals("ready", seen_at=now - LONGEST_SILENCE_SECONDS - 1), Vitals("ready", seen_at=now)

    assert liveness([loud]).is_good
    assert not liveness([loud, silent]).is_good
    assert liveness([silent], patience=LONGEST_SILENCE_SECONDS + 5).is_good
    assert not readiness([silent]).is_good
    assert "has not ticked for 31 s" in liveness([silent]).status


def test_a_long_import_is_no_reason_to_be_killed() -> None:
    assert liveness([Vitals("starting", seen_at=0.0)]).is_good


def test_ready_means_all_of_them() -> None:
    assert readiness([Vitals("ready"), Vitals("ready")]).status == "ready"
    assert readiness([Vitals("ready"), Vitals("starting")]).status == "starting"
    assert readiness([Vitals("stopping"), Vitals("starting")]).status == "stopping"
    assert not readiness([Vitals("ready"), Vitals("stopping")]).is_good
    assert not readiness([Vitals("ready"), Vitals("ready", reaches_database=False)]).is_good


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_probes_are_answered_at_addresses_of_every_kind(host: str) -> None:
    if host == "::1" and not _has_ipv6():
        pytest.skip("this machine has no IPv6")
    everyone = [Vitals()]
    port = serve_probes(host, 0, everyone, patience=30)
    place = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    assert probe(f"{place}/readyz") == (503, "starting")
    everyone[0].state = "ready"
    assert probe(f"{place}/readyz?verbose") == (200, "ready")
    with urllib.request.urlopen(urllib.request.Request(f"{place}/livez", method="HEAD")) as answer:
        assert (answer.status, answer.read()) == (200, b"")


def _has_ipv6() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


@pytest.mark.parametrize("host", ["no such host", "a" * 100, "192.0.2.1"])
def test_an_address_that_is_not_ours_is_refused(host: str) -> None:
    with pytest.raises(ConfigurationError, match=f"cannot serve health probes at {host}:0: "):
        serve_probes(host, 0, [], patience=30)


def test_connections_beyond_the_limit_replace_the_oldest_and_probes_are_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(probes, "REQUEST_SECONDS", 3600)
    monkeypatch.setattr(probes, "MOST_CONNECTIONS", 3)
    port = serve_probes("127.0.0.1", 0, [Vitals()], patience=30)
    with contextlib.ExitStack() as idle:
        oldest, *others = (idle.enter_context(socket.create_connection(("127.0.0.1", port), 20)) for _ in range(3))
        assert probe(f"http://127.0.0.1:{port}/readyz") == (503, "starting")
        assert oldest.recv(1) == b""
        others[-1].sendall(b"GET /readyz HTTP/1.0\r\n\r\n")
        assert others[-1].recv(12) == b"HTTP/1.0 503"


def test_a_connection_that_sends_byte_by_byte_ends_when_its_whole_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "REQUEST_SECONDS", 1)
    port = serve_probes("127.0.0.1", 0, [Vitals()], patience=30)
    with socket.create_connection(("127.0.0.1", port), 20) as slow:
        slow.settimeout(0.02)

        def is_ended() -> bool:
            try:
                slow.sendall(b"x")
                return slow.recv(1) == b""
            except TimeoutError:
                return False
            except ConnectionError:
                return True

        until_blocking(is_ended, "the server has hung up")


def test_nothing_runs_in_a_process_that_is_gone() -> None:
    vitals = Vitals("ready", counts=Counts(running=3, done=10))
    vitals.mark_dead()

    assert vitals.state == "starting"
    assert (vitals.counts.running, vitals.counts.done) == (0, 10)


async def test_a_job_that_is_recovered_from_a_dead_worker_did_not_run_here() -> None:
    hooks, counts = HookRegistry(), Counts(running=1)
    counts.watch(hooks)

    for reason, running in ((FailureReason.WORKER_CRASHED, 1), (FailureReason.SHUTDOWN_ABORTED, 0)):
        await hooks.emit(JobInterrupted(job=JOB, worker_id="dead", reason=reason))
        assert counts.running == running


def test_the_command_line_wins_over_the_application() -> None:
    asked = WorkerOptions(
        concurrency=5,
        local_queue=LocalQueueConfig(size=50, ttl=timedelta(seconds=7)),
        forbidden_flags=["slow"],
        not_tasks=["send"],
        max_jobs=5,
        max_memory=2**28,
        complete_job_batch_delay=timedelta(seconds=1),
        shutdown=WorkerShutdownConfig(interrupted_job_retry_delay=timedelta(seconds=9)),
        extensions={"theirs": 1},
    )
    plan = Plan(
        target="tasks",
        concurrency=20,
        queue_size=7,
        poll_seconds=0.5,
        grace_seconds=25,
        max_connections=3,
        max_jobs=100,
        child_max_memory=2**30,
        forbidden_flags=("huge",),
        tasks=("send",),
        no_listen=True,
    )

    options = plan.options(App(worker=asked), hooks=HookRegistry())

    assert options.local_queue == LocalQueueConfig(size=7, ttl=timedelta(seconds=7))
    assert options.shutdown == WorkerShutdownConfig(
        listen_os_shutdown_signals=False,
        grace_period=timedelta(seconds=25),
        interrupted_job_retry_delay=timedelta(seconds=9),
    )
    assert (options.concurrency, options.poll_interval, options.max_connections) == (20, timedelta(seconds=0.5), 3)
    assert (options.max_jobs, options.max_memory, options.child_max_memory) == (100, 2**28, 2**30)
    assert options.forbidden_flags == ("huge",)
    assert (options.tasks, options.not_tasks) == (("send",), ())
    assert not options.use_notification_delivery
    assert options.complete_job_batch_delay == timedelta(seconds=1)
    assert options.extensions == {"theirs": 1}


def test_what_the_command_line_leaves_out_the_application_decides() -> None:
    hooks = HookRegistry()
    hooks.on(JobFail, lambda _: None)
    asked = WorkerOptions(
        concurrency=5, local_queue=LocalQueueConfig(), forbidden_flags=["slow"], tasks=["send"], hooks=hooks
    )
    ours = HookRegistry()
    ours.on(JobComplete, lambda _: None)

    options = Plan(target="tasks").options(App(worker=asked), hooks=ours)

    assert options.hooks.wants(JobFail)
    assert options.hooks.wants(JobComplete)
    assert not hooks.wants(JobComplete)
    signals = replace(asked.shutdown, listen_os_shutdown_signals=False)
    assert replace(options, hooks=hooks) == replace(asked, shutdown=signals)


@pytest.mark.parametrize(
    ("asked", "no_recovery", "expected"),
    [
        (None, False, WorkerRecoveryConfig(recovery_delay=timedelta())),
        (WorkerOptions(concurrency=5), False, WorkerRecoveryConfig(recovery_delay=timedelta())),
        (
            WorkerOptions(sweep_interval=timedelta(seconds=9)),
            False,
            WorkerRecoveryConfig(sweep_interval=timedelta(seconds=9)),
        ),
        (WorkerOptions(recovery=WorkerRecoveryConfig(enabled=False)), False, WorkerRecoveryConfig(enabled=False)),
        (WorkerOptions(sweep_interval=MINUTE), True, WorkerRecoveryConfig(enabled=False)),
    ],
)
def test_recovery_is_on_unless_the_application_or_the_command_line_says_otherwise(
    asked: WorkerOptions | None, no_recovery: bool, expected: WorkerRecoveryConfig
) -> None:
    options = Plan(target="tasks", no_recovery=no_recovery).options(App(worker=asked), hooks=HookRegistry())

    assert options.recovery == expected


def test_a_queue_of_no_size_claims_nothing_ahead() -> None:
    app = App(worker=WorkerOptions(local_queue=LocalQueueConfig(size=50)))
    plain = {"hooks": HookRegistry()}

    assert Plan(target="tasks", queue_size=0).options(app, **plain).local_queue is None
    assert Plan(target="tasks", queue_size=8).options(App(), **plain).local_queue == LocalQueueConfig(size=8)


def test_an_application_with_options_of_another_kind_is_told_which_are_wanted() -> None:
    with pytest.raises(ConfigurationError, match=r"App\(worker=…\) takes WorkerOptions\(…\); got dict"):
        Plan(target="tasks").options(App(worker={"concurrency": 5}), hooks=HookRegistry())


def test_options_that_cannot_work_together_are_told() -> None:
    queue = LocalQueueConfig(refetch_delay=RefetchDelayConfig(duration=timedelta(seconds=1)))
    app = App(worker=WorkerOptions(local_queue=queue))

    with pytest.raises(ConfigurationError, match=r"must not be larger than poll_interval \(0.5 s\)"):
        Plan(target="tasks", poll_seconds=0.5).options(app, hooks=HookRegistry())


def test_the_status_line_sums_up_and_takes_the_rate_from_the_last_looks() -> None:
    line = StatusLine(io.StringIO())
    first, second = Vitals(counts=Counts(running=1, done=10)), Vitals(counts=Counts(running=2, failed=5))

    assert line.text([first, second], 100.0) == "3 running  10 done  5 failed  0/s"
    first.counts.done += 2000
    assert line.text([first, second], 102.0) == "3 running  2,010 done  5 failed  1,000/s"


def test_what_is_printed_goes_above_the_status_line() -> None:
    terminal = io.StringIO()
    StatusLine(terminal).draw([Vitals()])
    print("one", "two", file=AboveStatusLine(terminal))

    assert terminal.getvalue() == f"{CLEAR_LINE}0 running  0 done  0 failed  0/s{CLEAR_LINE}one two\n"


def test_a_stream_above_the_status_line_takes_what_the_terminal_takes() -> None:
    stream = AboveStatusLine(io.StringIO())
    click.echo("an error", file=stream)

    assert stream.getvalue() == f"{CLEAR_LINE}an error\n"


def test_a_log_line_names_the_job_and_interprets_nothing() -> None:
    record = logging.LogRecord("x", logging.INFO, "", 0, "to %s", ("\x1b[31mred postgresql://me:hunter2@host",), None)
    record.job_id, record.task = 7, "mail\n"

    text = TextFormatter(verbose=True).format(record)

    assert text.endswith(r"INFO    to \x1b[31mred postgresql://me:***@host job_id=7 task=mail\n")
    assert TextFormatter().format(record).endswith("***@host")
    assert json.loads(JsonFormatter().format(record))["task"] == "mail\n"


def test_a_terminal_shows_the_level_in_colour_and_what_is_said_as_text() -> None:
    record = logging.LogRecord("x", logging.WARNING, "", 0, "\x1b[31mred", (), None)

    assert TextFormatter(colours=True).format(record).endswith("\x1b[33mWARNING\x1b[0m \\x1b[31mred")


@pytest.mark.parametrize(
    ("is_terminal", "variables", "expected"),
    [(True, {}, True), (False, {}, False), (True, {"NO_COLOR": "1"}, False), (True, {"TERM": "dumb"}, False)],
)
def test_colours_are_for_terminals_that_want_them(
    monkeypatch: pytest.MonkeyPatch, is_terminal: bool, variables: dict[str, str], expected: bool
) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: is_terminal, raising=False)
    monkeypatch.setattr("sys.stderr", stream)
    for name, value in {"NO_COLOR": "", "TERM": "xterm", **variables}.items():
        monkeypatch.setenv(name, value)

    assert has_colours() == expected


def test_a_logged_exception_comes_with_its_traceback() -> None:
    error = ValueError("no good")
    record = logging.LogRecord("x", logging.ERROR, "", 0, "sad", (), (ValueError, error, None))

    assert TextFormatter().format(record).endswith("\nValueError: no good")
    assert json.loads(JsonFormatter().format(record))["traceback"].endswith("ValueError: no good")


def test_changed_files_are_noticed_below_the_folder_but_not_those_of_others(tmp_path: Path) -> None:
    for folder in ("shop", ".venv", "env", "node_modules"):
        (tmp_path / folder).mkdir()
    (tmp_path / "env" / "pyvenv.cfg").touch()
    (tmp_path / "shop" / "a.py").touch()
    files = PythonFiles(tmp_path)

    for folder in (".venv", "env", "node_modules"):
        (tmp_path / folder / "a.py").touch()
    (tmp_path / "shop" / "a.txt").touch()
    assert files.changed() is None
    os.utime(tmp_path / "shop" / "a.py", (1, 1))
    assert files.changed() == tmp_path / "shop" / "a.py"
    (tmp_path / "shop" / "a.py").write_text("half of it is written, and the rest within the same tick of the clock")
    os.utime(tmp_path / "shop" / "a.py", (1, 1))
    assert files.changed() == tmp_path / "shop" / "a.py"
    (tmp_path / "b.py").touch()
    assert files.changed() == tmp_path / "b.py"
    (tmp_path / "b.py").unlink()
    assert files.changed() == tmp_path / "b.py"
    assert files.changed() is None


def test_a_folder_that_may_not_be_entered_does_not_keep_changes_from_being_noticed() -> None:
    with reachable_folder() as folder:
        folder.chmod(0o755)
        (folder / "pgdata").mkdir(mode=0)
        with _without_privileges():
            files = PythonFiles(folder)
        (folder / "a.py").touch()
        with _without_privileges():
            assert files.changed() == folder / "a.py"


@contextlib.contextmanager
def _without_privileges() -> Iterator[None]:
    """Root may enter every folder."""
    before = os.geteuid()
    os.seteuid(before or 65534)
    try:
        yield
    finally:
        os.seteuid(before)


async def test_a_look_for_changed_files_that_fails_is_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()

    await Supervisor(Plan(target="tasks"), StatusBoard([Vitals()], None, patience=30), reload=True)._watch_files()

    assert [record.event for record in caplog.records] == ["reload_ended"]


def test_python_s_own_loop_serves_where_uvloop_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ferryman.cli.event_loops.find_spec", lambda _: None)

    assert loop_factory() is None
    with pytest.raises(ConfigurationError, match=r"uvloop is not installed.*pip install 'ferryman\[uvloop\]'"):
        loop_factory("uvloop")
