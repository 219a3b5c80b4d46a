"""Every claim that a worker holds, wherever it waits."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from ferryman.worker.claiming.claims import Claim


class ClaimHolder(Protocol):
    """A part of the worker that holds claims."""

    @property
    def held_claims(self) -> Collection[Claim]:
        """The claims that wait in this part."""
        ...


class HeldClaims:
    """The claims whose jobs run or wait to be run, whose outcomes wait to be written, or that are left locked."""

    def __init__(self) -> None:
        self._holders: Sequence[ClaimHolder] = ()
        self.tokens_change = asyncio.Lock()
        """Held while claims get other tokens, and while the tokens of all claims are sent."""

    def include(self, *holders: ClaimHolder) -> None:
        """Count the claims that these parts hold, too."""
        self._holders = (*self._holders, *holders)

    def __iter__(self) -> Iterator[Claim]:
        for holder in self._holders:
            yield from holder.held_claims
