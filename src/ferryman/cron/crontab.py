"""A crontab: when to add a job, of which task, and with which payload."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from ferryman.cron.fill import CrontabFill
from ferryman.cron.timer import CrontabTimer
from ferryman.cron.zones import fires_in_zone, next_in_zone, zone_named
from ferryman.errors import CrontabError, InvalidJobError
from ferryman.jobs import MAX_KEY_LENGTH, JobKeyMode, JobSpec, check_identifier, check_text

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

__all__ = ["Crontab", "CrontabFill", "CrontabTimer"]


@dataclass(frozen=True, slots=True)
class Crontab:
    """When to add a job, of which task, and with which payload.

    timer: the minutes at which it fires
    task_identifier: the task of the jobs
    id: the name under which the database remembers when it last fired (default: the task identifier)
    fill: how far back a worker that starts adds the jobs of missed minutes (default: not at all)
    max_attempts, queue_name, priority, flags, job_key, job_key_mode: as in `JobSpec`
    payload_json: the payload, a JSON object, to which the scheduler adds `_cron` (default: only `_cron`)
    time_zone: the time zone of the timer, such as Europe/Paris (default: UTC)
    """

    timer: CrontabTimer
    task_identifier: str
    id: str | None = field(default=None, kw_only=True)
    fill: CrontabFill | None = field(default=None, kw_only=True)
    max_attempts: int | None = field(default=None, kw_only=True)
    queue_name: str | None = field(default=None, kw_only=True)
    priority: int | None = field(default=None, kw_only=True)
    flags: Sequence[str] | None = field(default=None, kw_only=True)
    job_key: str | None = field(default=None, kw_only=True)
    job_key_mode: JobKeyMode | None = field(default=None, kw_only=True)
    # Payloads can hold data that must not be logged.
    payload_json: str | None = field(default=None, kw_only=True, repr=False)
    time_zone: str = field(default="UTC", kw_only=True)

    def __post_init__(self) -> None:
        _check_kind("timer", self.timer, CrontabTimer)
        if self.fill is not None:
            _check_kind("fill", self.fill, CrontabFill)
        try:
            check_identifier(self.task_identifier)
            if self.id is not None:
                check_text("id", self.id, MAX_KEY_LENGTH)
            spec = self.job_spec()
        except InvalidJobError as error:
            raise CrontabError(str(error)) from None
        object.__setattr__(self, "job_key_mode", spec.job_key_mode)
        object.__setattr__(self, "flags", spec.flags)
        if self.payload_json is not None:
            _check_payload(self.payload_json)
        zone_named(self.time_zone)

    def job_spec(self) -> JobSpec:
        """The options of its jobs, without the time."""
        return JobSpec(
            max_attempts=self.max_attempts,
            queue_name=self.queue_name,
            priority=self.priority,
            flags=self.flags,
            job_key=self.job_key,
            job_key_mode=self.job_key_mode,
        )

    @property
    def identifier(self) -> str:
        """The name under which the database remembers when it last fired."""
        return self.task_identifier if self.id is None else self.id

    def fires_at(self, minute: datetime) -> bool:
        """True if it fires in the minute of this moment."""
        return fires_in_zone(self.timer, self.time_zone, _floor(minute))

    def next_after(self, moment: datetime) -> datetime | None:
        """The first minute after this moment at which it fires, in UTC; None if there is none, as for 30 February."""
        return next_in_zone(self.timer, self.time_zone, _floor(moment) + timedelta(minutes=1))


def _floor(moment: datetime) -> datetime:
    """The start of the moment's minute, in UTC."""
    if moment.utcoffset() is None:
        raise CrontabError(f"the moment must have a time zone; got {moment.isoformat()}")
    return moment.astimezone(UTC).replace(second=0, microsecond=0)


def _check_kind(name: str, value: Any, kind: type) -> None:
    if not isinstance(value, kind):
        raise CrontabError(f"{name} must be a {kind.__name__}, not {type(value).__name__}")


def _check_payload(payload_json: str) -> None:
    try:
        payload = json.loads(payload_json)
    except ValueError:
        raise CrontabError("payload_json is not valid JSON") from None
    except RecursionError:
        raise CrontabError("payload_json is nested too deeply to be read") from None
    if not isinstance(payload, dict):
        raise CrontabError(
            f"the payload of a crontab must be an object, to which `_cron` can be added; got {_kind_of(payload)}"
        )


def _kind_of(value: Any) -> str:
    if isinstance(value, list):
        return "a list"
    return "null" if value is None else json.dumps(value)[:40]
