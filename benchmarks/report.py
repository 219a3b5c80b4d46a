"""Writes the results as tables, for the terminal and for docs/benchmarks.md."""

from __future__ import annotations

import inspect
import json
import subprocess
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from benchmarks.parts import PARTS
from benchmarks.products import BATCHED, DEFAULT, FERRYMAN, PRODUCTS
from benchmarks.promises import verdicts
from benchmarks.server import SETTINGS
from benchmarks.toolchains import Unavailable, python_environment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from benchmarks.results import Part, Series

FACTS = {
    "jobs": "jobs",
    "client_us": "client µs/job",
    "server_us": "server µs/job",
    "wal_bytes": "WAL bytes/job",
    "megabytes": "most memory, MB",
    "connections": "connections",
    "transactions": "transactions/s",
    "idle_megabytes": "memory, MB",
    "own_us": "Ferryman's own part, µs",
}
MODES = {DEFAULT: "default settings", BATCHED: "best settings"}
PREFACE = """\
Ferryman beside its peers, each with its own client, in its own environment, from its own registry. All run on the same
private server, in turns, several times. The tables show medians, their spread, and how many times as good Ferryman is.
**Compare within a table only**: absolute figures are one machine's, at one hour, and shared machines drift by a third.
"""
HOW_TO_READ = """\
Held or missed goes by the **median of the rounds' ratios**: in a round both ran within minutes of each other. The
columns after it tell how far to trust it:

- **lowest to highest**: the ratios of the rounds. A wide spread means that the machine was busy with something else.
- **by medians**: the ratio of the medians of all rounds.
- **by processor time**: what client and server together spent on a job, theirs to ours. It depends less on what else
  the machine does: waiting for a processor is not in it, though a shared core or cache still makes a job dearer. It is
  not speed: it leaves out all waiting, and adds up processors that work at once.
"""
WHAT_WAS_TRIED = """\
Where a promise is missed, this was tried:

- **Drain against raw SQL.** The raw loop runs no jobs: it has no task to find, no payload to decode, no handler, no
  outcome, and one statement may delete whatever it claimed. What a task does not use is found out once per task, which
  took a slot from 4.8 to 3.5 µs a job. The key index without deduplication (`ferryman doctor --tune key-index`) saves a
  tenth of the server's time for jobs without keys; it is off here, because it is off in a fresh install. A claim of
  1,000 takes the server 10 µs a job, and the bare one 6. Without the marks of rivals, the order of ids, the flags, the
  names of queues or most columns, with all rows locked at once, or with results in binary form, it would be up to 1 µs
  less each.
- **Drain against Node's best, pgqueuer and the Rust crate.** It is the same loop, so what was tried above was tried for
  these too. The bare SQL loop shows the room that is left: with one process it drained 1.7 times as fast as Node's best
  settings, 5.0 times as fast as pgqueuer, and in claims of 24 it drained 8.6 times as fast as Node's defaults. Against
  the crate, the median of three rounds was 1.2x to 1.35x in two runs with one and two processes.
- **Claims with several processes.** Rows that rivals are just taking are passed by, so that more processes are no
  longer slower than one. They are looked at once instead of twice, which took a sixth off a claim of 1,000 behind 3,000
  of them. Two claims of 12 side by side instead of one of 24 cost twice the processor time in Python.
- **Latency at the median.** A claim of one job takes about 75 µs longer than the barest update of one row. Without the
  completion in passing, the marks of rivals, the flags or the relaxed commit it would be up to 10 µs shorter each: it
  is the size of the plan, and no single part of it.
- **Adding.** A call is one statement and one round trip. Against the bare INSERT it also checks the payload, looks up
  the task and the schedule, and returns the job. A spec is completed once for all jobs that share it, which took a
  sixth off the client's time in a call of 1,000; without hooks a single job is added in one session and not in two, by
  a twelfth fewer instructions of the client. Payloads as single texts instead of one JSON array, unsorted, or a
  statement of its own for jobs of one kind saved about a tenth of the server's time at best; for a single job, a
  statement without the parts about queues about a twentieth.
- **Start.** Workers recover by default, which takes a connection and a registration before the first claim. The
  connection of heartbeats is opened while tasks are registered; the schema is read once, and a connection is settled
  by one statement; listening, crontabs and all that sweeps wait for the first claim, which found its connection taken
  before. Files of SQL are read once each. By its first job a worker has asked its pool 6 questions and not 13. In nine
  starts by turns on a busy machine it took 0.73x of the time of before, and 0.90x of the processor's. Of what is left,
  imports are most, and two thirds of these are asyncio and psycopg.
- **An idle worker.** A poll every 2 s and a look every 2.5 s. Workers of other programs are looked for with the
  heartbeat and not besides, and the listener proves itself once a minute and not twice. With the crontabs and a search
  for orphans, each once a minute, that makes 57 transactions a minute, where it was 60. A look less often would find
  killed workers later. PostgreSQL counts autovacuum besides, about ten a minute in a young database.
"""
REPEAT = """\
```sh
make bench                                             # everything; installs the peers first
python -m benchmarks --docs docs/benchmarks.md         # the same, and writes this page
python -m benchmarks --only drain --products raw ferryman node --rounds 5
python -m benchmarks --quick                           # seconds: is it in working order?
```

The peers come from their own registries into `.cache/bench`. Rust and Go must be installed for those written in them,
and one that cannot run is left out, with a line that says why. Figures are kept below `.cache/bench/results`, by part,
so that a part can be measured again by itself; `--report-only` shows them without measuring. Nothing else should run on
the machine meanwhile."""
SETTINGS_NOTE = """\
Default settings are what a product does unasked, but for the concurrency, which is the same for all. Best settings are
the fastest that its documentation or its own benchmark shows, or faster ones where we found them; none of them trades
durability for speed."""
PROMISED = ["", "promised", "measured", "lowest to highest", "by medians", "by processor time"]
PLOTTER = ("matplotlib==3.10.*",)


def show(part: Part, console: Console) -> None:
    """Print all tables of a part."""
    for scenario, series in part.scenarios():
        table = Table(title=f"{part.name}: {scenario}", title_justify="left")
        headings, rows = _cells(series)
        for number, heading in enumerate(headings):
            table.add_column(heading, justify="right" if number else "left")
        for row in rows:
            table.add_row(*row)
        console.print(table)
    for contender, reason in part.skipped.items():
        console.print(f"skipped: {contender}: {reason}", style="yellow", markup=False)


def show_promises(parts: Sequence[Part], console: Console) -> None:
    """Print one table of all promises, with those that were not measured."""
    table = Table(title="promised", title_justify="left")
    for number, heading in enumerate(PROMISED):
        table.add_column(heading, justify="right" if number else "left")
    for row in _promised_rows(parts):
        table.add_row(*row)
    console.print(table)


def write(parts: Sequence[Part], file: Path) -> Path:
    """Write the report, with its plots beside it."""
    plots = _plots(parts, file.parent / "images" / "benchmarks")
    chapters = [_opening(parts), _promised(parts)]
    file.parent.mkdir(parents=True, exist_ok=True)
    for part in parts:
        lines = [f"## {part.name.capitalize()}", _method(part.name), _circumstances(part)]
        if part.name in plots:
            lines.append(f"![{part.name}](images/benchmarks/{part.name}.svg)")
        for scenario, series in part.scenarios():
            lines += [f"**{scenario[0].upper()}{scenario[1:]}**", _markdown(*_cells(series))]
        lines += [f"*Left out: {name}: {reason.splitlines()[0]}*" for name, reason in part.skipped.items()]
        chapters.append("\n\n".join(lines))
    file.write_text("\n\n".join([*chapters, _products(parts), f"## Again\n\n{REPEAT}"]) + "\n")
    return file


def _cells(series: list[Series]) -> tuple[list[str], list[list[str]]]:
    ours = next((one for one in series if one.contender == FERRYMAN.name), None)
    facts = [name for name in FACTS if any(name in one.facts for one in series)]
    headings = ["", f"median {series[0].unit}", "lowest to highest", "ferryman is", *(FACTS[name] for name in facts)]
    rows = []
    for one in sorted(series, key=lambda one: one.median, reverse=series[0].is_rate):
        ratio = f"{ours.times(one):.2f}x" if ours and ours is not one else ""
        spread = f"{_number(min(one.values))} to {_number(max(one.values))}"
        rows.append([one.contender, _number(one.median), spread, ratio, *(_fact(one, name) for name in facts)])
    return headings, rows


def _fact(series: Series, name: str) -> str:
    value = series.fact(name)
    return "" if value is None else _number(value)


def _number(value: float) -> str:
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def _opening(parts: Sequence[Part]) -> str:
    about = parts[0].about if parts else {}
    settings = ", ".join(f"`{name} = {value}`" for name, value in SETTINGS.items() if value)
    paragraphs = [
        "# Benchmarks",
        "*Generated by `python -m benchmarks --docs docs/benchmarks.md`; do not edit.*",
        PREFACE.strip(),
        (
            f"PostgreSQL {about.get('postgres')} ({settings}), reached by TCP on the same machine; Python "
            f"{about.get('python')}; {about.get('processors')} processors, shared by server and clients; "
            f"rounds: {about.get('rounds')} at most; measured {about.get('date')} in "
            f"{sum(part.about.get('minutes', 0) for part in parts):.0f} minutes."
        ),
    ]
    return "\n\n".join(paragraphs)


def _circumstances(part: Part) -> str:
    values = max((len(one.values) for one in part.series), default=0)
    return f"*Values behind a median: {values} at most. Measured {part.about.get('date')}.*"


def _products(parts: Sequence[Part]) -> str:
    """Return the table of products, with versions and settings."""
    found: dict[str, str] = {}
    for part in parts:
        found |= part.about.get("versions", {})
    products = [product for product in PRODUCTS.values() if product.name in found]
    versions = _markdown(["", "measured"], [[one.name, found[one.name]] for one in products], figures=False)
    settings = _markdown(
        ["", *MODES.values(), "best settings from"],
        [[one.name, *(_listed(one.modes[mode]) for mode in MODES), one.source] for one in products],
        figures=False,
    )
    return f"## Versions\n\n{versions}\n\n## Settings\n\n{SETTINGS_NOTE}\n\n{settings}"


def _listed(settings: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in settings.items())


def _promised(parts: Sequence[Part]) -> str:
    table = _markdown(PROMISED, _promised_rows(parts))
    return f"## Promised\n\n{table}\n\n{HOW_TO_READ.strip()}\n\n{WHAT_WAS_TRIED.strip()}"


def _promised_rows(parts: Sequence[Part]) -> list[list[str]]:
    return [
        [one.title, one.promised, f"{one.mark} {one.measured}", one.spread, one.by_medians, one.by_processor_time]
        for one in verdicts(parts)
    ]


def _method(name: str) -> str:
    """Return what the docstring of a part's module says, without its title."""
    text = (inspect.getdoc(inspect.getmodule(PARTS[name])) or "").split(": ", 1)[1]
    return text[0].upper() + text[1:]


def _markdown(headings: list[str], rows: list[list[str]], *, figures: bool = True) -> str:
    lines = [headings, ["---:" if number and figures else "---" for number in range(len(headings))], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _plots(parts: Sequence[Part], folder: Path) -> set[str]:
    """Draw what can be drawn; matplotlib has an environment of its own."""
    try:
        python = python_environment("plots", PLOTTER)
    except Unavailable:
        return set()
    folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [python, Path(__file__).with_name("plot.py"), folder],
        input=json.dumps([asdict(part) for part in parts]),
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.split())
