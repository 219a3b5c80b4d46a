"""What a watchdog is told when it is started."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from ferryman.embedded.layout import Layout


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchOrders:
    """Everything that goes with the watchdog into its own process. No secrets: `ps` shows it."""

    folder: Path
    programs: Path
    linger_seconds: float
    settings: dict[str, str]
    lock: int

    @property
    def layout(self) -> Layout:
        """The paths in the folder."""
        return Layout(self.folder)

    def to_json(self) -> str:
        """As one argument of a command line."""
        return json.dumps(asdict(self), default=str)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what `to_json` wrote."""
        values = json.loads(text)
        return cls(**values | {"folder": Path(values["folder"]), "programs": Path(values["programs"])})
