"""A schedule of the database as a JSON document, and what became of one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ferryman.cli.clean import clean_line, clean_lines
from ferryman.cli.cron.check import entry_document
from ferryman.cli.tables import timestamp

if TYPE_CHECKING:
    from ferryman.client.schedules import Schedule


def schedule_document(schedule: Schedule) -> dict[str, Any]:
    """What it is, and when it fired and fires; without its payload."""
    return _entry(schedule) | {
        "is_paused": schedule.is_paused,
        "last_run_at": schedule.last_run_at,
        "next_run_at": schedule.next_run_at,
        "created_at": schedule.created_at,
        "updated_at": schedule.updated_at,
        "problem": schedule.problem,
    }


def _entry(schedule: Schedule) -> dict[str, Any]:
    if schedule.readable is None:
        return {"identifier": schedule.identifier, "task": None, "when": None, "time_zone": None}
    return entry_document(schedule.readable)


@dataclass(frozen=True, slots=True)
class ChangedReport:
    """A schedule that was paused or resumed."""

    verb: str
    schedule: Schedule
    exit_code: int = 0

    def document(self) -> object:
        """The schedule as it is now."""
        return schedule_document(self.schedule)

    def lines(self) -> list[str]:
        """What was done, and what comes next."""
        name, following = clean_line(self.schedule.identifier), self.schedule.next_run_at
        if self.schedule.problem is not None:
            return [
                f"{self.verb} {name}. It adds no jobs, because it cannot be read: {clean_lines(self.schedule.problem)}"
            ]
        if self.schedule.is_paused:
            return [f"{self.verb} {name}. It adds no jobs until it is resumed."]
        return [
            f"{self.verb} {name}. " + ("It never fires." if following is None else f"Next: {timestamp(following)}.")
        ]
