"""What `/livez` and `/readyz` answer, by the vitals of the processes; and the server that answers."""

from __future__ import annotations

import contextlib
import socket
import urllib.request
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from ferryman.cli.worker import probes, vitals
from ferryman.cli.worker.probes import serve_probes
from ferryman.cli.worker.vitals import LONGEST_SILENCE_SECONDS, Counts, Vitals, liveness, readiness
from ferryman.errors import ConfigurationError
from ferryman.hooks import FailureReason, HookRegistry, JobInterrupted
from ferryman.jobs import Job, JobState
from tests.support.commands import probe
from tests.support.waiting import until_blocking

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
