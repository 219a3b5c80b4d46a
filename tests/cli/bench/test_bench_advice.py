"""The advice of `ferryman bench`: figures in, sentences out, without a server."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ferryman.cli.bench import advice
from ferryman.cli.bench.advice import advise
from ferryman.cli.bench.figures import BenchSetup, Drain, Figures, Machine, Rate, Server, Times

DIRECT = Drain(Rate(4000, 3900, 4100), cpu_us=100, cpu_share=0.4)
CALM = Figures(
    setup=BenchSetup(jobs=10_000, concurrency=10, queue_size=500),
    server=Server("18.1", connections_allowed=97, connections_used=5, has_pooler=False),
    machine=Machine(processors=4, event_loop="asyncio.unix_events"),
    round_trip=Times(0.2, 0.3, 0.4, 100),
    commit=Times(0.5, 0.6, 0.7, 100),
    add_one=Rate(1000, 990, 1010),
    add_bulk=Rate(2000, 1900, 2100),
    direct=DIRECT,
    local_queue=None,
    latency=Times(2.0, 3.0, 4.0, 100),
)
"""The figures of a run that call for no advice."""


def far_away(**others: Any) -> Figures:
    return replace(CALM, round_trip=Times(5.0, 6.0, 7.0, 100), commit=Times(5.5, 6.5, 7.5, 100), **others)


def setup(**given: Any) -> BenchSetup:
    return replace(CALM.setup, **given)


def test_figures_that_call_for_nothing_get_no_advice() -> None:
    assert advise(CALM) == []


def test_a_far_server_calls_for_a_local_queue_that_is_measured_first() -> None:
    [given] = advise(far_away())

    assert given.topic == "local_queue"
    assert "5.0 ms" in given.seen
    assert "The server is distant" in given.reason
    assert given.settings == ("ferryman bench --queue-size 200   # to measure it", "ferryman worker … --queue-size 200")


def test_a_round_trip_of_a_millisecond_is_not_long() -> None:
    assert advice.local_queue_advice(replace(CALM, round_trip=Times(1.0, 1.0, 1.0, 100))) is None


def test_a_local_queue_that_was_much_faster_is_advised_in_the_size_that_was_measured() -> None:
    given = advice.local_queue_advice(replace(CALM, local_queue=replace(DIRECT, rate=Rate(8000, 8000, 8000))))

    assert given is not None
    assert "2.0 times the 4,000 jobs/s" in given.seen
    assert given.settings == ("ferryman worker … --queue-size 500",)


def test_a_local_queue_that_may_be_too_small_is_to_be_measured_again() -> None:
    fast = replace(DIRECT, rate=Rate(8000, 8000, 8000), cpu_us=10)
    given = advice.local_queue_advice(far_away(local_queue=fast))

    assert given is not None
    assert given.settings[0] == "ferryman worker … --queue-size 500"
    assert given.settings[1].startswith("ferryman bench --queue-size 1100 ")


@pytest.mark.parametrize("rate", [3000.0, 4000.0, 4700.0])
def test_a_local_queue_that_gains_little_is_advised_against(rate: float) -> None:
    given = advice.local_queue_advice(replace(CALM, local_queue=replace(DIRECT, rate=Rate(rate, rate, rate))))

    assert given is not None
    assert "too small to claim ahead" in given.reason
    assert given.settings == ("ferryman worker … --queue-size 0   # the default",)


def test_long_jobs_need_no_local_queue_however_far_the_server_is() -> None:
    long = setup(job_ms=100)

    assert advice.local_queue_advice(far_away(setup=long)) is None
    given = advice.local_queue_advice(far_away(setup=long, local_queue=replace(DIRECT, rate=Rate(9000, 9000, 9000))))
    assert given is not None
    assert "too small to claim ahead" in given.reason


@pytest.mark.parametrize(("concurrency", "commit", "size"), [(10, 0.5, 100), (100, 0.5, 400), (10, 40.0, 800)])
def test_the_size_of_a_queue_covers_its_slots_and_a_fetch(concurrency: int, commit: float, size: int) -> None:
    figures = replace(CALM, setup=setup(concurrency=concurrency), commit=Times(commit, commit, commit, 100))

    assert size == advice.queue_size_for(figures)


def test_a_queue_for_jobs_that_take_their_time_covers_what_the_slots_can_do() -> None:
    figures = replace(CALM, setup=setup(job_ms=10.0), commit=Times(40.0, 40.0, 40.0, 100))

    assert advice.queue_size_for(figures) == 100


def test_bulk_that_pays_off_is_advised_with_the_price_of_a_single_call() -> None:
    given = advice.adding_advice(replace(CALM, add_bulk=Rate(30_000, 29_000, 31_000)))

    assert given is not None
    assert given.seen == "Added in bulk, 30,000 jobs/s went in; one by one, 1,000 jobs/s."
    assert "0.50 ms for the smallest write (0.20 ms of it the round trip)" in given.reason
    assert given.settings[0] == "client.add_jobs([…])"


def test_a_slow_commit_calls_for_gathering_completions() -> None:
    slow = replace(CALM, commit=Times(8.4, 9.0, 10.0, 100))
    given = advice.commit_advice(slow)

    assert given is not None
    assert "8.2 ms" in given.seen
    assert given.settings[0].startswith("ferryman bench --batch-delay 9 ")
    assert given.settings[1] == "WorkerOptions(complete_job_batch_delay=timedelta(milliseconds=9))"
    assert advice.commit_advice(replace(slow, setup=setup(batch_delay_ms=10.0))) is None


def test_a_far_server_does_not_make_a_commit_slow() -> None:
    assert advice.commit_advice(far_away()) is None


def test_a_busy_processor_calls_for_more_processes_and_tells_of_uvloop() -> None:
    given = advice.processor_advice(replace(CALM, direct=replace(DIRECT, cpu_share=0.97)))

    assert given is not None
    assert "100 µs" in given.seen
    assert "97 % of a processor" in given.seen
    assert given.settings == ("ferryman worker … --processes 4", "pip install 'ferryman[uvloop]'")


def test_the_busier_of_the_drains_tells_whether_the_processor_is_the_limit() -> None:
    busy = replace(DIRECT, cpu_share=0.9)

    assert advice.processor_advice(replace(CALM, local_queue=busy)) is not None
    assert advice.processor_advice(replace(CALM, local_queue=DIRECT)) is None


def test_on_a_single_processor_or_on_uvloop_there_is_less_to_say() -> None:
    busy = replace(CALM, direct=replace(DIRECT, cpu_share=0.97), machine=Machine(1, "uvloop"))
    given = advice.processor_advice(busy)

    assert given is not None
    assert given.settings == ()
    assert "add a machine with a worker" in given.reason


def waiting(concurrency: int, job_ms: float, rate: float, cpu_share: float = 0.05) -> Figures:
    drain = Drain(Rate(rate, rate, rate), cpu_us=200, cpu_share=cpu_share)
    return replace(CALM, setup=setup(concurrency=concurrency, job_ms=job_ms), direct=drain)


def test_full_slots_and_an_idle_processor_call_for_more_concurrency_by_littles_law() -> None:
    given = advice.concurrency_advice(waiting(10, job_ms=100, rate=95))

    assert given is not None
    assert "9.5 of 10 slots" in given.seen
    assert "10 slots allow no more than 100 jobs/s. 350 slots allow up to 3,500 jobs/s" in given.reason
    assert given.settings == ("ferryman worker … --concurrency 350",)


def test_concurrency_is_never_advised_beyond_reason() -> None:
    given = advice.concurrency_advice(waiting(10, job_ms=5000, rate=2))

    assert given is not None
    assert given.settings == ("ferryman worker … --concurrency 1000",)


@pytest.mark.parametrize(
    "figures",
    [
        pytest.param(CALM, id="jobs that take no time"),
        pytest.param(waiting(10, job_ms=100, rate=30), id="slots that are free"),
        pytest.param(waiting(10, job_ms=100, rate=95, cpu_share=0.95), id="a busy processor"),
        pytest.param(waiting(400, job_ms=100, rate=3900), id="slots enough for the processor"),
    ],
)
def test_more_slots_are_not_advised_for(figures: Figures) -> None:
    assert advice.concurrency_advice(figures) is None


def crowded(allowed: int, used: int, processors: int = 4) -> Figures:
    server = replace(CALM.server, connections_allowed=allowed, connections_used=used)
    return replace(CALM, server=server, machine=replace(CALM.machine, processors=processors))


def test_workers_that_would_use_up_all_connections_get_fewer() -> None:
    given = advice.connections_advice(crowded(allowed=97, used=70))

    assert given is not None
    assert given.seen == "The server has room for 27 more connections (70 of 97 are in use)."
    assert "uses up to 12" in given.reason
    assert "may ask for 48" in given.reason
    assert given.settings[0] == "ferryman worker … --max-connections 4"


def test_where_not_even_small_pools_fit_only_the_server_or_fewer_processes_help() -> None:
    given = advice.connections_advice(crowded(allowed=97, used=99, processors=16))

    assert given is not None
    assert "room for 0 more" in given.seen
    assert given.settings == ("max_connections = … in postgresql.conf, or fewer processes",)


def test_connections_that_fit_exactly_are_enough() -> None:
    assert advice.connections_advice(crowded(allowed=53, used=5)) is None


def test_a_pooler_is_told_with_what_it_costs() -> None:
    pooled = replace(CALM, server=replace(CALM.server, has_pooler=True), latency=Times(1003.0, 2000.0, 2001.0, 5))
    [given] = advise(pooled)

    assert given.topic == "pooler"
    assert "1,003 ms after it was added" in given.seen
    assert "prepares no statements" in given.reason
    assert any("--no-listen" in setting for setting in given.settings)


def test_rounds_that_differ_much_are_told() -> None:
    given = advice.spread_advice(replace(CALM, add_one=Rate(1000, 500, 1010)))

    assert given is not None
    assert given.seen == "The rounds differ: when adding one by one, the fastest was 2.0 times the slowest."
    assert given.settings == ("ferryman bench --jobs 40000 --rounds 5",)


def test_percentiles_are_in_milliseconds_and_rates_have_their_range() -> None:
    times = Times.of([number / 1000 for number in range(101)])

    assert pytest.approx((50.0, 95.0, 99.0)) == (times.p50, times.p95, times.p99)
    assert times.samples == 101
    assert Rate.of([3.0, 1.0, 2.0]) == Rate(2.0, 1.0, 3.0)
