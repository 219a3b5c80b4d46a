"""Who an observer must take for dead: worked out from all its looks, and not from one look to the next."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


@dataclass(frozen=True)
class Shown:
    """What a look showed of a worker: its beat, and what was wrong with it."""

    beat: int
    has_lost_session: bool
    is_old: bool
    limit: float
    """For how long it may be silent, in seconds."""


@dataclass(frozen=True)
class Look:
    """One look. `seconds` since the one before count, unless something was missed in between."""

    seconds: float | None
    shown: Mapping[str, Shown]


@dataclass
class ModelObserver:
    """All looks so far, with the rules: see `ferryman.recovery.observer`."""

    grace: float
    longest_gap: float
    looks: list[Look] = field(default_factory=list)
    last_look: float | None = None

    def could_not_look(self) -> None:
        self.last_look = None

    def looked(self, now: float, shown: Mapping[str, Shown]) -> dict[str, tuple[int, str, float]]:
        """Note a look: beat, reason and silence of those who are dead."""
        seconds = None if self.last_look is None else now - self.last_look
        if seconds is not None and seconds > self.longest_gap:
            seconds = None
        self.looks.append(Look(seconds, shown))
        self.last_look = now
        dead = {}
        for name, sign in shown.items():
            missing = self._lost_for(name)
            silent = self._silent_for(name)
            if missing is not None and missing >= self.grace:
                dead[name] = (sign.beat, "session lost", missing)
            elif silent is not None and silent >= sign.limit and self._steady_for() >= self.grace:
                dead[name] = (sign.beat, "silent", silent)
        return dead

    def _lost_for(self, name: str) -> float | None:
        """Seconds without its session, over looks that missed nothing."""
        return self._lasting(name, lambda sign: sign.has_lost_session, goes_over_gaps=False)

    def _silent_for(self, name: str) -> float | None:
        """Seconds of the same old beat, in which one could look."""
        return self._lasting(name, lambda sign: sign.is_old, goes_over_gaps=True)

    def _lasting(self, name: str, is_wrong: Callable[[Shown], bool], *, goes_over_gaps: bool) -> float | None:
        newest = self.looks[-1].shown[name]
        if not is_wrong(newest):
            return None
        total = 0.0
        for look, before in zip(reversed(self.looks), reversed(self.looks[:-1]), strict=False):
            earlier = before.shown.get(name)
            if earlier is None or not is_wrong(earlier) or earlier.beat != newest.beat:
                break
            if look.seconds is None and not goes_over_gaps:
                break
            total += look.seconds or 0.0
        return total

    def _steady_for(self) -> float:
        total = 0.0
        for look in reversed(self.looks):
            if look.seconds is None:
                break
            total += look.seconds
        return total
