"""How far a worker is behind with outcomes: those not written yet, and those not reported to hooks yet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ferryman.hooks.reporting import Telling
    from ferryman.worker.settling.reports import Reports
    from ferryman.worker.settling.settler import Settler

MOST_UNSETTLED_PER_SLOT = 100
"""With more outcomes than this waiting to be written or reported to hooks, no more jobs are claimed."""


class Backlog:
    """The outcomes and events that are not dealt with yet.

    news: reports other events to hooks
    """

    def __init__(self, settler: Settler, reports: Reports, news: Telling[Any], *, concurrency: int) -> None:
        self._settler = settler
        self._reports = reports
        self._news = news
        self._concurrency = concurrency

    @property
    def is_too_long(self) -> bool:
        """True if no more jobs should be claimed for now."""
        return max(self._settler.unsettled, self._untold) > self._concurrency * MOST_UNSETTLED_PER_SLOT

    @property
    def is_done(self) -> bool:
        """True if all outcomes are written and reported to hooks."""
        return not self._settler.unsettled and not self._untold

    async def flush(self) -> None:
        """Return when all outcomes are written and reported to hooks."""
        await self._settler.flush()
        await self._reports.drain()
        await self._news.drain()

    def close(self) -> int:
        """Report nothing more to hooks. Returns how many events they have not handled."""
        return self._reports.close() + self._news.close()

    @property
    def _untold(self) -> int:
        return self._reports.untold + self._news.untold
