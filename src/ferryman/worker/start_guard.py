"""Keeps a worker from starting jobs that other workers may have by now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ferryman import clocks

if TYPE_CHECKING:
    from collections.abc import Callable

    from ferryman.recovery.safety_window import SafetyWindow
    from ferryman.worker.claiming.claims import Claim
    from ferryman.worker.identity import Identity


class StartGuard:
    """Says whether a claimed job may be started: this worker cannot have been declared dead, and its id is the same.

    window: how long the worker can be sure of that; None if it is never declared dead
    """

    def __init__(
        self, identity: Identity, window: SafetyWindow | None, clock: Callable[[], float] = clocks.now
    ) -> None:
        self._identity = identity
        self._window = window
        self.clock = clock

    @property
    def may_be_dead(self) -> bool:
        """True while other workers may have declared this one dead: nothing is started or claimed."""
        return self._window is not None and not self._window.is_safe(self.clock())

    def may_start(self, claim: Claim) -> bool:
        """True if the job is still this worker's, as far as this worker can know, so that its handler may be called."""
        # The id last: under a new one the worker is safe again, and its earlier claims are lost.
        return not self.may_be_dead and claim.worker_id == self._identity.id
