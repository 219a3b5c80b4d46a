"""One order in the hands of one child."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from ferryman.worker.running.children.crashes import NotOursError
from ferryman.worker.running.children.framing import UnreadableError
from ferryman.worker.running.children.messages import (
    MAX_NOTE_BYTES,
    ChildAsksKeys,
    ChildDecision,
    ChildFailure,
    ChildSuccess,
    decode_message,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from datetime import timedelta

    from ferryman.worker.running.children.child import Child
    from ferryman.worker.running.children.messages import ChildNote, ChildResult
    from ferryman.worker.running.children.orders import ChildOrder


class Errand:
    """Hands over an order and waits for the answer, neither longer than allowed.

    The time until the task begins is counted by itself. A task whose module takes longer to import than the task may
    run would otherwise never finish: its child is replaced by another that starts to import.
    """

    def __init__(
        self, child: Child, order: ChildOrder, on_note: Callable[[ChildNote], object], may_start: Callable[[], bool]
    ) -> None:
        self.child = child
        self.order = order
        self._on_note = on_note
        self._may_start = may_start
        self.has_begun = False

    async def run(self, start_limit: timedelta, limit: timedelta | None) -> ChildResult:
        """The result. `TimeoutError` when it takes too long; `EOFError` or `ConnectionError` on a crash.

        `UnreadableError` when the child does not keep to the protocol; its process must be ended then. `NotOursError`
        when the job may not start any more.
        """
        async with _at_most(start_limit, f"importing {self.order.place.module!r} to run {self.order} took"):
            await self.child.prepare()
            # The wait for a child may have been long, and the job is another worker's by now.
            if not self._may_start():
                raise NotOursError
            await self.child.hand_over(self.order)
            while word := await self._next_word():
                await self._take(word)
        self.has_begun = True
        async with _at_most(limit, f"{self.order} ran"):
            while True:
                result = await self._take(await self._next_word())
                if result is not None:
                    return result

    async def _next_word(self) -> bytearray:
        try:
            # Around what the task made there are a few words of ours, and an error text.
            return await self.child.next_word(self.order.largest_answer + MAX_NOTE_BYTES)
        except UnreadableError as error:
            raise UnreadableError(f"{self.order} {error}") from None

    async def _take(self, word: bytearray) -> ChildResult | None:
        """The result, if it is one; notes are passed on."""
        answer = decode_message(word, self.order)
        if isinstance(answer, (ChildSuccess, ChildDecision, ChildFailure)):
            return answer
        reply = self._on_note(answer)
        if isinstance(answer, ChildAsksKeys):
            await self.child.reply(reply)
        # What has arrived is read without waiting: a child that talks all the time must leave others their turn.
        await asyncio.sleep(0)
        return None


@asynccontextmanager
async def _at_most(limit: timedelta | None, activity: str) -> AsyncIterator[None]:
    seconds = None if limit is None else limit.total_seconds()
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise TimeoutError(f"{activity} for more than {seconds:g} s; its process was ended") from None
