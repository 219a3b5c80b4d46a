"""Notices when Python files change, by looking: no dependency, and it works on every file system."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

LOOK_SECONDS = 0.5
_FOREIGN = {"__pycache__", "node_modules", "site-packages"}


class Files:
    """The Python files below a folder, when each was last written, and how long it is.

    The clock of a file system is coarse: a file that is looked at while it is being written may keep its time.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen = dict(self._look())

    def changed(self) -> Path | None:
        """A file that was written, added or removed since the last look; None if there is none."""
        before, self._seen = self._seen, dict(self._look())
        different = before.items() ^ self._seen.items()
        return min((path for path, _ in different), default=None)

    def _look(self) -> Iterator[tuple[Path, tuple[int, int]]]:
        for place, folders, files in os.walk(self._folder):
            folders[:] = [name for name in folders if _is_ours(Path(place, name))]
            for file in (Path(place, name) for name in files if name.endswith(".py")):
                try:
                    found = file.stat()
                except OSError:  # gone since we listed it
                    continue
                yield file, (found.st_mtime_ns, found.st_size)


def _is_ours(folder: Path) -> bool:
    # Not Path.exists: it raises in a folder that we may not enter, such as the data of a database.
    is_environment = os.path.exists(folder / "pyvenv.cfg")  # noqa: PTH110
    return not (folder.name.startswith(".") or folder.name in _FOREIGN or is_environment)
