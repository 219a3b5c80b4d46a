"""The exceptions that a handler raises to decide what happens to its job."""

from __future__ import annotations

from datetime import timedelta

from ferryman.errors import FerrymanError
from ferryman.payloads import encode_payload


class Retry(FerrymanError):  # noqa: N818 - a decision, not an error
    """The attempt failed. Retry after another delay, or with another payload.

    after: how long to wait, instead of the delay of the task's policy; `TypeError` if it is not a timedelta
    payload: the payload of the next attempt; None keeps it. It is stored together with the failure
    """

    def __init__(
        self, reason: str = "the handler asked for a retry", *, after: timedelta | None = None, payload: object = None
    ) -> None:
        super().__init__(reason)
        self.after = None if after is None else _checked(after, "Retry(after=…)")
        self.payload_json = None if payload is None else encode_payload(payload)


class Fail(FerrymanError):  # noqa: N818
    """The job failed for good; no attempt is left."""

    def __init__(self, reason: str = "the handler gave up") -> None:
        super().__init__(reason)


class Snooze(FerrymanError):  # noqa: N818
    """Nothing failed. Run the job again after this delay, and do not count the attempt.

    delay: how long to wait; `TypeError` if it is not a timedelta
    """

    def __init__(self, delay: timedelta) -> None:
        super().__init__(f"snoozed for {delay}")
        self.delay = _checked(delay, "Snooze(…)")


def _checked(delay: timedelta, where: str) -> timedelta:
    # Here, where the traceback shows the line that is wrong, and not when the worker looks at it.
    if not isinstance(delay, timedelta):
        raise TypeError(f"{where} takes a timedelta, not {delay!r}: say timedelta(seconds=…)")
    return delay
