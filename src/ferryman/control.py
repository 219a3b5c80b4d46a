"""What a handler may raise to decide the fate of its job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ferryman.errors import FerrymanError

if TYPE_CHECKING:
    from datetime import timedelta


class Retry(FerrymanError):  # noqa: N818 - a decision, not an error
    """The attempt failed; try again after this delay instead of the one that the task's policy says."""

    def __init__(self, reason: str = "the handler asked for a retry", *, after: timedelta) -> None:
        super().__init__(reason)
        self.after = after


class Fail(FerrymanError):  # noqa: N818
    """The job failed for good; no attempt is left."""

    def __init__(self, reason: str = "the handler gave up") -> None:
        super().__init__(reason)


class Snooze(FerrymanError):  # noqa: N818
    """Nothing failed; run the job again after this delay, and do not count the attempt."""

    def __init__(self, delay: timedelta) -> None:
        super().__init__(f"snoozed for {delay}")
        self.delay = delay
