"""Turns crontabs into columns of the database, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from ferryman.cron.crontab import Crontab
from ferryman.cron.fill import CrontabFill
from ferryman.cron.pattern import PLACES, parse_timer

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet
    from datetime import datetime

    from ferryman.cron.timer import CrontabTimer
    from ferryman.database.steps import Row
    from ferryman.jobs import JobKeyMode

FEWEST_OF_A_STEP = 3
COLUMNS = 14
"""How many columns describe a crontab, in `read_crontabs.sql` and in `parts/schedule_columns.sql`."""


class StoredCrontab(msgspec.Struct, frozen=True):
    """A schedule of the database."""

    crontab: Crontab
    revision: int
    """Grows with each change."""
    active_since: datetime
    """Minutes before this never fire."""


def stored_from_row(row: Row) -> StoredCrontab:
    """Read the columns from `identifier` to `job_key_mode`. Raises `CrontabError` if they are not valid."""
    (
        identifier, revision, active_since, timing, time_zone, task_identifier, payload_json, fill_seconds,
        queue_name, max_attempts, priority, flags, job_key, job_key_mode,
    ) = row  # fmt: skip
    crontab = Crontab(
        parse_timer(timing),
        task_identifier,
        id=identifier,
        fill=None if fill_seconds is None else CrontabFill.seconds(fill_seconds),
        max_attempts=max_attempts,
        queue_name=queue_name,
        priority=priority,
        flags=flags,
        job_key=job_key,
        job_key_mode=job_key_mode,
        payload_json=payload_json,
        time_zone=time_zone,
    )
    return StoredCrontab(crontab, revision, active_since)


def columns_of(crontab: Crontab) -> dict[str, Any]:
    """The columns of a crontab."""
    return {
        "identifier": crontab.identifier,
        "timing": timing_of(crontab.timer),
        "time_zone": crontab.time_zone,
        "task_identifier": crontab.task_identifier,
        "payload": crontab.payload_json,
        "fill_seconds": None if crontab.fill is None else crontab.fill.total_seconds(),
        "queue_name": crontab.queue_name,
        "max_attempts": crontab.max_attempts,
        "priority": crontab.priority,
        "flags": None if crontab.flags is None else list(crontab.flags),
        "job_key": crontab.job_key,
        "job_key_mode": key_mode_value(crontab.job_key_mode),
    }


def key_mode_value(mode: JobKeyMode | None) -> str | None:
    """The mode as the database stores it."""
    return None if mode is None else mode.value


def timing_of(timer: CrontabTimer) -> str:
    """The five fields of a timer in their shortest form, so that the same timer always reads the same."""
    values = (timer.minutes, timer.hours, timer.days, timer.months, timer.weekdays)
    return " ".join(
        _field(present, range(place.least, place.most + 1)) for present, place in zip(values, PLACES, strict=True)
    )


def _field(values: AbstractSet[int], every: range) -> str:
    if values == set(every):
        return "*"
    step = _step(values, every)
    return _list(sorted(values)) if step is None else f"*/{step}"


def _step(values: AbstractSet[int], every: range) -> int | None:
    """The n of `*/n`, if the values are such a step."""
    if len(values) < FEWEST_OF_A_STEP:
        return None
    first, second, *_ = sorted(values)
    return second - first if values == set(every[:: second - first]) else None


def _list(values: list[int]) -> str:
    runs: list[list[int]] = []
    for value in values:
        if runs and value == runs[-1][-1] + 1:
            runs[-1].append(value)
        else:
            runs.append([value])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
