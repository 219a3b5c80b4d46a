"""Rows as values: the one place that knows the order of `job_columns.sql`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ferryman.jobs import Job, JobState

if TYPE_CHECKING:
    from ferryman.database.steps import Row

_STATES = {state.value: state for state in JobState}


def job_from_row(row: Row) -> Job:
    """The job that a row of `job_columns.sql` describes."""
    *columns, flags, state = row
    return Job(*(*columns, tuple(sorted(flags or ())), _STATES[state]))
