"""What is made of the figures: ratios, verdicts on what was promised, and the page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from benchmarks.bench import BYSTANDERS_ROUNDS, Bench
from benchmarks.parts import PARTS, growth, latency, recovery, standing
from benchmarks.parts.drain import title
from benchmarks.products import BATCHED, CHANCY, FERRYMAN, FERRYMAN_UVLOOP, NODE, RAW, RUST
from benchmarks.results import Part, Series
from benchmarks.server import Server
from rich.console import Console

from benchmarks import promises, report

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.promises import Verdict

DRAIN = title(BATCHED, 1)


def part_with(name: str, *series: Series) -> Part:
    return Part(name, about={"versions": {FERRYMAN.name: "ferryman 0.1.0"}, "date": "2026-01-01"}, series=[*series])


def verdict(part: Part, beginning: str) -> Verdict:
    return next(one for one in promises.verdicts([part]) if one.title.startswith(beginning))


def test_a_ratio_is_taken_round_by_round_too() -> None:
    ours, theirs = Series("s", "a", "jobs/s", [20.0, 30.0, 90.0]), Series("s", "b", "jobs/s", [10.0, 10.0])
    assert ours.times_by_round(theirs) == [2.0, 3.0]


def test_every_number_of_the_design_has_a_line_even_if_it_was_not_measured() -> None:
    lines = promises.verdicts([])
    assert len(lines) == 42
    assert {(one.held, one.measured) for one in lines} == {(None, "not measured")}


@pytest.mark.parametrize(("rate", "held"), [(250.0, True), (100.0, False)])
def test_a_rate_is_held_against_the_least_that_is_promised(rate: float, held: bool) -> None:
    ours = Series(DRAIN, FERRYMAN_UVLOOP.name, "jobs/s", [rate] * 2)
    theirs = Series(DRAIN, NODE.name, "jobs/s", [100.0, 50.0])
    ours.note(client_us=10.0, server_us=10.0)
    theirs.note(client_us=40.0, server_us=10.0)
    found = verdict(part_with("drain", ours, theirs), "drain, best settings")
    assert found.held is held
    assert found.measured == f"{(rate / 100 + rate / 50) / 2:.2f}x"
    assert found.spread == f"{rate / 100:.2f} to {rate / 50:.2f}"
    assert found.by_medians == f"{rate / 75:.2f}x"
    assert found.by_processor_time == "2.50x"


@pytest.mark.parametrize(("milliseconds", "held"), [(1.0, True), (1.9, False)])
def test_a_latency_is_held_against_the_most_that_is_promised(milliseconds: float, held: bool) -> None:
    scenario = latency.title(latency.IDLE, 50)
    ours, theirs = (
        Series(scenario, FERRYMAN.name, "ms", [milliseconds]),
        Series(scenario, NODE.name, "ms", [2.0]),
    )
    found = verdict(part_with("latency", ours, theirs), "latency when idle, p50")
    assert (found.held, found.measured) == (held, f"{milliseconds / 2:.2f}x")


def test_the_best_peer_is_the_best_of_this_scenario_and_neither_ours_nor_the_limit() -> None:
    scenario = latency.title(latency.IDLE, 95)
    figures = [(FERRYMAN, 1.0), (FERRYMAN_UVLOOP, 0.5), (RAW, 0.1), (NODE, 2.0), (RUST, 1.6)]
    series = [Series(scenario, product.name, "ms", [value]) for product, value in figures]
    found = verdict(part_with("latency", *series), "latency when idle, p95")
    assert (found.title.endswith(RUST.name), found.measured) == (True, "0.62x")


def test_a_backlog_is_compared_with_a_smaller_one_of_our_own() -> None:
    small, large = growth.PROMISED
    found = verdict(
        part_with(
            "growth", Series(small, FERRYMAN.name, "jobs/s", [100.0]), Series(large, FERRYMAN.name, "jobs/s", [95.0])
        ),
        "drain at 1 M backlog",
    )
    assert (found.held, found.measured) == (True, "0.95x")


def test_limits_go_by_the_median_of_a_fact_or_by_the_longest_value() -> None:
    idle = Series(standing.IDLE, FERRYMAN.name, "MB", [50.0])
    for connections in (3, 3, 4):
        idle.note(connections=connections)
    assert verdict(part_with("standing", idle), "connections").held
    waits = Series(recovery.SCENARIO, FERRYMAN.name, "s", [9.0, 16.0, 10.0])
    found = verdict(part_with("recovery", waits), "SIGKILL")
    assert (found.held, found.measured) == (False, "16 s")


def test_bystanders_sit_the_later_rounds_out() -> None:
    bench = Bench(Server("", 0), [FERRYMAN, CHANCY], BYSTANDERS_ROUNDS + 1, 1, True, Console(quiet=True))
    names = [product.name for product in bench.interleaved(Part("drain"), bench.products)]
    assert names.count(FERRYMAN.name) == BYSTANDERS_ROUNDS + 1
    assert names.count(CHANCY.name) == BYSTANDERS_ROUNDS


def test_the_page_tells_versions_settings_promises_and_how_to_repeat_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "_plots", lambda *_: {"drain"})
    part = part_with("drain", Series(DRAIN, FERRYMAN.name, "jobs/s", [100.0]))
    part.skipped["some peer"] = "its toolchain is not installed\nand more"
    text = report.write([part], tmp_path / "docs" / "benchmarks.md").read_text()
    for expected in (
        "## Promised",
        "? not measured",
        "## Drain",
        "![drain](images/benchmarks/drain.svg)",
        "*Left out: some peer: its toolchain is not installed*",
        "| ferryman | ferryman 0.1.0 |",
        "local_queue",
        "python -m benchmarks --docs",
    ):
        assert expected in text


def test_every_part_says_how_it_measures() -> None:
    for name in PARTS:
        assert report._method(name)
