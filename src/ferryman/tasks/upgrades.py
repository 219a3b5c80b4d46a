"""Upgrades payloads that were made for earlier versions of a task, before they are checked."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from ferryman.errors import InvalidPayloadError, TaskError
from ferryman.payloads import encode_payload

Upgrade: TypeAlias = Callable[[dict[str, Any]], Mapping[str, Any]]
"""Returns a payload for today's parameters. It is called with every payload of its task, today's too."""


def check_upgrade(upgrade: Upgrade | None) -> Upgrade | None:
    """Raise `TaskError` unless this is a function for one payload, or None."""
    if upgrade is not None and (not callable(upgrade) or inspect.iscoroutinefunction(upgrade)):
        raise TaskError(f"upgrade must be a plain function that takes a payload and returns one; got {upgrade!r}")
    return upgrade


def upgraded(payload_json: str, upgrade: Upgrade) -> str:
    """Return the payload as `upgrade` returns it. In the list of a batch job, each item is upgraded separately.

    What is not an object stays as it is, and so do keys that begin with `_`, which belong to the queue.
    """
    payload = json.loads(payload_json)
    is_batch = isinstance(payload, list)
    changed = [_upgraded_object(item, upgrade) for item in payload] if is_batch else _upgraded_object(payload, upgrade)
    try:
        return encode_payload(changed)
    except InvalidPayloadError as error:
        problem = str(error).removesuffix("; nothing was added")
        raise InvalidPayloadError(f"upgrade returned a value that no payload can hold: {problem}") from None


def _upgraded_object(payload: Any, upgrade: Upgrade) -> Any:
    if not isinstance(payload, dict):
        return payload
    of_the_queue = {key: value for key, value in payload.items() if key.startswith("_")}
    changed: object = upgrade({key: value for key, value in payload.items() if key not in of_the_queue})
    if not isinstance(changed, Mapping):
        raise InvalidPayloadError(
            f"upgrade returned {type(changed).__name__}, not a mapping; return the payload, also if it is unchanged"
        )
    return {**changed, **of_the_queue}
