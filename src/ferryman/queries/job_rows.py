"""Rows as values: the one place that knows the order of `parts/job_columns.sql`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ferryman.far_times import FarTime
from ferryman.jobs import Job, JobState

if TYPE_CHECKING:
    from ferryman.database.steps import Row

_STATES = {state.value: state for state in JobState}
_TIMES = (5, 9, 10, 12)
"""The places of run_at, created_at, updated_at and locked_at."""


def job_from_row(row: Row) -> Job:
    """The job that a row of `parts/job_columns.sql` describes."""
    *columns, flags, state, far_times = row
    if far_times is not None:
        for place, stored in zip(_TIMES, far_times, strict=True):
            if columns[place] is None and stored is not None:
                columns[place] = FarTime.of(stored)
    return Job(*(*columns, tuple(sorted(flags or ())), _STATES[state]))
