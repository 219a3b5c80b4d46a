"""How far a worker is behind with outcomes: those that are not written, and those that hooks have not heard of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ferryman.hooks.reporting import Telling
    from ferryman.worker.settling.reports import Reports
    from ferryman.worker.settling.settler import Settler

MOST_UNSETTLED_PER_SLOT = 100
"""Beyond this many outcomes that wait to be written, or that hooks wait to hear of, no more jobs are claimed."""


class Backlog:
    """What has to be done about jobs that have ended.

    news: other events that hooks are told of
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
        """True if all outcomes are written, and hooks were told of them."""
        return not self._settler.unsettled and not self._untold

    async def flush(self) -> None:
        """Come back when all outcomes are written, and hooks were told of them."""
        await self._settler.flush()
        await self._reports.drain()
        await self._news.drain()

    def close(self) -> int:
        """Tell hooks nothing more; how many events they have not handled."""
        return self._reports.close() + self._news.close()

    @property
    def _untold(self) -> int:
        return self._reports.untold + self._news.untold
