"""Queue names that depend on the payload: `queue_name="user:{user_id}"` gives each user a queue."""

from __future__ import annotations

import string
from typing import TYPE_CHECKING, Any

import msgspec

from ferryman.errors import TaskError
from ferryman.tasks.forms import ArgumentsError

if TYPE_CHECKING:
    from typing import Self


class QueueTemplate(msgspec.Struct, frozen=True):
    """A queue name with payload fields in braces; `{order.id}` is a field within a field."""

    text: str
    parts: tuple[tuple[str, str | None], ...]
    """Literal text, and the field that follows it."""

    @classmethod
    def of(cls, text: str | None) -> Self | None:
        """Read a queue name; None if it has no field, so that all jobs share it. `TaskError` if it cannot be read."""
        if text is None or ("{" not in text and "}" not in text):
            return None
        try:
            parts = [*string.Formatter().parse(text)]
        except ValueError as error:
            raise TaskError(f"queue_name {text!r} cannot be read: {error}. Write {{{{ for a brace itself.") from None
        for _, field, form, conversion in parts:
            if form or conversion or (field is not None and not all(map(str.isidentifier, field.split(".")))):
                raise TaskError(
                    f"queue_name {text!r} cannot be read: braces must contain the name of a payload field, such as "
                    f"{{user_id}} or {{order.id}}"
                )
        return cls(text, tuple((literal, field) for literal, field, _, _ in parts))

    def name_for(self, payload_json: str) -> str:
        """Return the queue of a job with this payload; `ArgumentsError` if a field is missing or has the wrong type."""
        payload = msgspec.json.decode(payload_json)
        return "".join(
            literal + ("" if field is None else self._value(field, payload)) for literal, field in self.parts
        )

    def _value(self, field: str, value: Any) -> str:
        for name in field.split("."):
            value = value.get(name) if isinstance(value, dict) else None
        if isinstance(value, bool) or not isinstance(value, (str, int)):
            raise ArgumentsError(f"the queue name {self.text!r} needs a text or a whole number as {field!r}")
        return str(value)
