"""Crontabs mean to us what they mean to the real Graphile Worker, but for a few things that have names."""

from __future__ import annotations

import json
import random
import subprocess
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ferryman.cron import parse_crontab
from ferryman.errors import CrontabError
from tests.interop import crontabs
from tests.support import nodes
from tests.support.once import once

if TYPE_CHECKING:
    from collections.abc import Callable

    from ferryman.cron import Crontab

LINES, FILES, SEED = 5_000, 500, 20_261_116
MINUTES_PER_LINE = 40
NODE_VERSION = "0.18"


@dataclass(frozen=True, slots=True)
class Case:
    """A text, what Node made of it, and what we made of it."""

    text: str
    theirs: Any
    ours: Any

    @property
    def agrees(self) -> bool:
        if isinstance(self.ours, str) and isinstance(self.theirs, str):
            # Behind Node's message there may be a hint of ours.
            return self.ours == self.theirs or self.ours.startswith(f"{self.theirs}\n  ")
        return bool(self.ours == self.theirs)


def _refused(*reasons: str) -> Callable[[Case], bool]:
    """We say no for a reason that Node does not know. Node says yes, or finds something else further on."""
    return lambda case: isinstance(case.ours, str) and any(reason in case.ours for reason in reasons)


DIFFERENCES: dict[str, Callable[[Case], bool]] = {
    "time zones": lambda case: "unsupported key 'tz'" in str(case.theirs),
    "numbers that the database refuses": _refused("must be between"),
    "names that the database refuses": _refused("must have 1 to"),
    "text that the database refuses": _refused("NUL character", "half of a surrogate pair"),
    "numbers that JSON lacks": _refused("cannot be stored as JSON", "too large to be stored as JSON"),
    "fills of more than ten years": _refused("a fill is at most 520 weeks long"),
    "whole numbers beyond 2**53": lambda case: _with_doubles(case.ours) == _with_doubles(case.theirs),
}
"""Each is explained in docs/cron.md."""


def _with_doubles(entries: Any) -> Any:
    """The entries as JavaScript has them, to which every number is a double. Messages are never equal."""
    return object() if isinstance(entries, str) else json.loads(json.dumps(entries), parse_int=float)


@pytest.fixture(scope="session")
def cases(tmp_path_factory: pytest.TempPathFactory) -> list[Case]:
    """Made once for all processes of the run, and read once by each."""

    def make() -> str:
        file = tmp_path_factory.mktemp("crontabs") / "cases.json"
        file.write_text(json.dumps(_make_cases()))
        return str(file)

    return [Case(*case) for case in json.loads(Path(once("crontabs against node", make)).read_text())]


def _make_cases() -> list[tuple[str, Any, Any]]:
    texts = [*crontabs.lines(LINES, SEED), *crontabs.files(FILES, SEED)]
    ours = [_read(text) for text in texts]
    minutes = _minutes(ours)
    theirs = _ask_node(texts, minutes)
    return [
        (text, _theirs(answer), _ours(read, moments))
        for text, answer, read, moments in zip(texts, theirs, ours, minutes, strict=True)
    ]


def test_every_difference_from_node_has_a_name(cases: list[Case]) -> None:
    nameless = [
        case for case in cases if not case.agrees and not any(applies(case) for applies in DIFFERENCES.values())
    ]

    assert nameless == []


@pytest.mark.parametrize("name", DIFFERENCES)
def test_each_named_difference_shows_and_is_rare(cases: list[Case], name: str) -> None:
    shown = [case for case in cases if not case.agrees and DIFFERENCES[name](case)]

    assert 0 < len(shown) < len(cases) * 0.03


def test_the_lines_are_a_fair_mixture(cases: list[Case]) -> None:
    refusals = Counter(case.theirs.split("'")[0] for case in cases if isinstance(case.theirs, str))
    fired = "".join(
        entry["fires"] for case in cases if case.agrees and isinstance(case.ours, list) for entry in case.ours
    )

    assert sum(isinstance(case.theirs, list) for case in cases) > len(cases) * 0.5
    assert sum(refusals.values()) > len(cases) * 0.2
    assert len(refusals) > 12
    assert len(fired) >= 100_000
    assert fired.count("1") > 20_000
    assert fired.count("0") > 20_000


def _read(text: str) -> list[Crontab] | str:
    try:
        return parse_crontab(text)
    except CrontabError as error:
        return error.problems[0]


def _minutes(read: list[list[Crontab] | str]) -> list[list[datetime]]:
    """Minutes to ask about: for a third any, for the rest those whose minute, hour and month an entry names."""
    chance = random.Random(SEED)
    start = datetime(2023, 1, 1, tzinfo=UTC)
    found = []
    for entries in read:
        moments = [start + timedelta(minutes=chance.randrange(8 * 366 * 1440)) for _ in range(MINUTES_PER_LINE)]
        if isinstance(entries, list) and entries:
            timer = chance.choice(entries).timer
            for number in range(MINUTES_PER_LINE // 3, MINUTES_PER_LINE):
                moments[number] = moments[number].replace(
                    minute=chance.choice(sorted(timer.minutes)),
                    hour=chance.choice(sorted(timer.hours)),
                    day=min(28, moments[number].day),
                    month=chance.choice(sorted(timer.months)),
                )
        found.append(moments)
    return found


def _ask_node(texts: list[str], minutes: list[list[datetime]]) -> list[Any]:
    questions = (
        json.dumps({"text": text, "minutes": [int(moment.timestamp() * 1000) for moment in moments]})
        for text, moments in zip(texts, minutes, strict=True)
    )
    done = subprocess.run(
        nodes.node_script("crontab.js", NODE_VERSION),
        env=nodes.node_environment(""),
        input="\n".join(questions) + "\n",
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
    )
    return [json.loads(line) for line in done.stdout.rstrip("\n").split("\n")]


def _theirs(answer: Any) -> Any:
    if "error" in answer:
        return answer["error"]
    return [
        {
            "identifier": entry["identifier"],
            "task": entry["task"],
            "fill": entry["options"]["backfillPeriod"] / 1000,
            "max": entry["options"].get("maxAttempts"),
            "queue": entry["options"].get("queueName"),
            "priority": entry["options"].get("priority"),
            "key": entry["options"].get("jobKey"),
            "mode": entry["options"].get("jobKeyMode"),
            "payload": entry["payload"],
            "timer": entry["timer"],
            "fires": entry["fires"],
        }
        for entry in answer["entries"]
    ]


def _ours(read: list[Crontab] | str, minutes: list[datetime]) -> Any:
    return read if isinstance(read, str) else [_plain(entry, minutes) for entry in read]


def _plain(entry: Crontab, minutes: list[datetime]) -> dict[str, Any]:
    return {
        "identifier": entry.identifier,
        "task": entry.task_identifier,
        "fill": entry.fill.total_seconds() if entry.fill else 0,
        "max": entry.max_attempts,
        "queue": entry.queue_name,
        "priority": entry.priority,
        "key": entry.job_key,
        "mode": entry.job_key_mode.value if entry.job_key_mode else None,
        "payload": None if entry.payload_json is None else json.loads(entry.payload_json),
        "timer": {
            "minutes": sorted(entry.timer.minutes),
            "hours": sorted(entry.timer.hours),
            "dates": sorted(entry.timer.days),
            "months": sorted(entry.timer.months),
            "dows": sorted(entry.timer.weekdays),
        },
        "fires": "".join("1" if entry.fires_at(minute) else "0" for minute in minutes),
    }
