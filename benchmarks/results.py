"""Stores what was measured: lists of figures, by part, so that parts can be measured one at a time."""

from __future__ import annotations

import json
import statistics
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@dataclass(slots=True)
class Series:
    """The figures of one product in one scenario, measured several times.

    unit: what the values are; rates (higher is better) are those that end in "/s"
    facts: further figures by name, one value per round
    """

    scenario: str
    contender: str
    unit: str
    values: list[float] = field(default_factory=list)
    facts: dict[str, list[float]] = field(default_factory=dict)

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def is_rate(self) -> bool:
        return self.unit.endswith("/s")

    def note(self, **facts: float) -> None:
        for name, value in facts.items():
            self.facts.setdefault(name, []).append(value)

    def fact(self, name: str) -> float | None:
        return statistics.median(self.facts[name]) if name in self.facts else None

    @property
    def processor_time(self) -> float | None:
        """The processor time in microseconds that client and server spent on a job together."""
        client, server = self.fact("client_us"), self.fact("server_us")
        return None if client is None or server is None else client + server

    def times(self, other: Series) -> float:
        """Return how many times as good this is as the other, by medians."""
        return self._times(self.median, other.median)

    def times_by_round(self, other: Series) -> list[float]:
        """Return the same for each round in which both were measured: the machine was as busy for one as the other."""
        return [self._times(mine, theirs) for mine, theirs in zip(self.values, other.values, strict=False)]

    def _times(self, mine: float, theirs: float) -> float:
        if not mine or not theirs:
            return float("nan")
        return mine / theirs if self.is_rate else theirs / mine


@dataclass(slots=True)
class Part:
    """All series of a part, and when and where they were measured."""

    name: str
    about: dict[str, Any] = field(default_factory=dict)
    series: list[Series] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)

    def of(self, scenario: str, contender: str, unit: str) -> Series:
        """Return this series; a new one if there is none yet."""
        found = self.find(scenario, contender)
        if found is None:
            found = Series(scenario, contender, unit)
            self.series.append(found)
        return found

    def find(self, scenario: str, contender: str) -> Series | None:
        return next((one for one in self.series if (one.scenario, one.contender) == (scenario, contender)), None)

    def scenarios(self) -> Iterator[tuple[str, list[Series]]]:
        for scenario in dict.fromkeys(one.scenario for one in self.series):
            yield scenario, [one for one in self.series if one.scenario == scenario and one.values]

    def save(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{self.name}.json").write_text(json.dumps(asdict(self), indent=1))

    @classmethod
    def load(cls, folder: Path, name: str) -> Part | None:
        file = folder / f"{name}.json"
        if not file.exists():
            return None
        stored = json.loads(file.read_text())
        stored["series"] = [Series(**one) for one in stored["series"]]
        return cls(**stored)
