"""`ferryman cron check` and `ferryman cron next`: schedules without a database."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.commands import Ran

CRONTAB = """\
# Reports
0 8 * * 1-5  send_report  ?tz=Europe/Paris  {to: "team"}
0 0 30 2 *   impossible
"""
APP = """\
from ferryman import App

app = App("postgresql://")

@app.cron("30 2 * * *", id="nightly", time_zone="Europe/Paris")
@app.task
def clean() -> None: ...
"""


@pytest.fixture
def crontab(tmp_path: Path) -> Path:
    file = tmp_path / "crontab"
    file.write_text(CRONTAB, encoding="utf-8")
    return file


def test_check_tells_what_each_line_means(run: Callable[..., Ran], crontab: Path) -> None:
    ran = run("cron", "check", crontab)

    assert ran.code == 0
    rows = [line.split("  ") for line in ran.out.splitlines()]
    assert [row[0] for row in rows] == ["identifier", "send_report", "impossible"]
    assert "at 08:00 from Monday to Friday, Europe/Paris" in ran.out
    assert ran.out.splitlines()[2].rstrip().endswith("  never")


def test_check_writes_one_document(run: Callable[..., Ran], crontab: Path) -> None:
    report, impossible = run("cron", "check", crontab, "--json").json["entries"]

    assert report["time_zone"] == "Europe/Paris"
    assert report["next"].endswith("Z")
    assert impossible == {
        "identifier": "impossible",
        "task": "impossible",
        "when": "at 00:00 on day 30 of the month in February, UTC",
        "time_zone": "UTC",
        "next": None,
    }


def test_check_tells_everything_that_is_wrong(run: Callable[..., Ran]) -> None:
    ran = run("cron", "check", "-", stdin="60 * * * * a\n0 0 * * * fine\nrubbish\n")

    assert ran.code == 1
    assert "Too large value '60' in minutes range in line 1 of crontab" in ran.err
    assert "Could not process line '3' of crontab: 'rubbish'" in ran.err
    assert ran.out == ""


def test_check_says_that_there_is_nothing(run: Callable[..., Ran]) -> None:
    assert run("cron", "check", "-", stdin="# nothing yet\n").out == "The crontab has no entries.\n"


def test_check_refuses_what_is_no_text(run: Callable[..., Ran]) -> None:
    ran = run("cron", "check", "-", stdin=b"0 0 * * * a\n\xff\xfe")

    assert ran.code == 1
    assert "- is not text in UTF-8: line 2" in ran.err


def test_check_says_that_a_file_is_missing(run: Callable[..., Ran], tmp_path: Path) -> None:
    ran = run("cron", "check", tmp_path / "nowhere")

    assert ran.code == 1
    assert "No such file" in ran.err


def test_next_tells_the_times_of_a_pattern(run: Callable[..., Ran]) -> None:
    ran = run(
        "cron", "next", "30 2 * * *", "--time-zone", "Europe/Paris", "--after", "2026-03-28T00:00Z", "--count", "3"
    )

    assert ran.out.splitlines() == [
        "at 02:30 every day, Europe/Paris",
        "  2026-03-28T01:30:00Z  Sat 2026-03-28 02:30 CET",
        "  2026-03-29T01:00:00Z  Sun 2026-03-29 03:00 CEST",
        "  2026-03-30T00:30:00Z  Mon 2026-03-30 02:30 CEST",
    ]


def test_next_tells_the_times_of_a_file(run: Callable[..., Ran], crontab: Path) -> None:
    ran = run("cron", "next", crontab, "--after", "2026-01-01T00:00Z", "--count", "1")

    assert ran.out.splitlines() == [
        "send_report: at 08:00 from Monday to Friday, Europe/Paris",
        "  2026-01-01T07:00:00Z  Thu 2026-01-01 08:00 CET",
        "",
        "impossible: at 00:00 on day 30 of the month in February, UTC (never)",
    ]


def test_next_tells_the_times_of_an_application(
    run: Callable[..., Ran], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cron_app_for_next.py").write_text(APP, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)

    [entry] = run(
        "cron", "next", "cron_app_for_next:app", "--after", "2026-07-01T00:00Z", "--count", "2", "--json"
    ).json["entries"]

    assert (entry["identifier"], entry["task"]) == ("nightly", "clean")
    assert entry["next"] == ["2026-07-01T00:30:00Z", "2026-07-02T00:30:00Z"]
    del sys.modules["cron_app_for_next"]


@pytest.mark.parametrize(
    ("arguments", "code", "problem"),
    [
        (("61 * * * *",), 1, "Too large value '61' in minutes range"),
        (("no_such_module_here",), 1, "there is no module 'no_such_module_here'"),
        (("* * * * *", "--time-zone", "Europe/Pari"), 1, "did you mean Europe/Paris?"),
        (("* * * * *", "--count", "0"), 2, "0 is not in the range"),
        (("* * * * *", "--after", "yesterday"), 2, "'yesterday' is not a time"),
    ],
)
def test_next_says_what_is_wrong(run: Callable[..., Ran], arguments: tuple[str, ...], code: int, problem: str) -> None:
    ran = run("cron", "next", *arguments)

    assert ran.code == code
    assert problem in ran.err
