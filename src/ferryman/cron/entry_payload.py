"""Checks the payload of a schedule against its task, and fills in the task's defaults."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ferryman.errors import CrontabError, InvalidPayloadError
from ferryman.jobs import NewJob
from ferryman.payloads import encode_payload

if TYPE_CHECKING:
    from ferryman.cron.crontab import Crontab
    from ferryman.tasks import Task

_TICK = {"_cron": {"ts": "2000-01-01T00:00:00.000Z", "backfilled": False}}


def with_payload(crontab: Crontab, payload: Any, task: Task[..., Any] | None) -> Crontab:
    """Return the crontab with this payload, and with the task's defaults for options that it leaves out.

    Raises `CrontabError` if the task could not run with the payload.

    payload: plain values, an instance of the task's own type, or what `task.job(…)` returns; None: no payload
    """
    try:
        payload_json = None if payload is None else _encoded(payload, crontab.task_identifier)
        filled = replace(crontab, payload_json=payload_json)
        return filled if task is None else _with_defaults(filled, task)
    except (InvalidPayloadError, CrontabError) as error:
        problem = str(error).removesuffix("; nothing was added")
        raise CrontabError(f"schedule {crontab.identifier!r}: {problem}") from None


def _with_defaults(crontab: Crontab, task: Task[..., Any]) -> Crontab:
    stored = _as_stored(crontab.payload_json)
    task.decode(stored)
    defaults = task.defaults if crontab.queue_name is not None else task.spec_for(stored)
    spec = crontab.job_spec().over(defaults)
    return replace(
        crontab,
        queue_name=spec.queue_name,
        max_attempts=spec.max_attempts,
        priority=spec.priority,
        flags=spec.flags,
    )


def _encoded(payload: Any, identifier: str) -> str:
    if not isinstance(payload, NewJob):
        return encode_payload(payload)
    if payload.identifier != identifier:
        raise CrontabError(f"the payload is a job of the task {payload.identifier!r}, not of {identifier!r}")
    return payload.payload_json


def _as_stored(payload_json: str | None) -> str:
    """The payload with the keys that a job of the schedule will have."""
    return json.dumps({**json.loads(payload_json or "{}"), **_TICK})
