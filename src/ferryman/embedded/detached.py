"""The script that becomes the watchdog.

Run by its path and not with `python -m`, which would import the whole of Ferryman first, database driver included:
slow, and one more thing that can be broken. An empty stand-in takes the place of the package, so that only the
modules of this folder and the exceptions are loaded, which need nothing but the standard library.
"""

import os
import sys
from pathlib import Path
from types import ModuleType


def main() -> None:
    """Leave the process that started us, then watch."""
    if os.fork():
        os._exit(0)  # the caller waits for this process only; the watchdog is nobody's child
    package = ModuleType("ferryman")
    package.__path__ = [str(Path(__file__).parents[1])]
    sys.modules["ferryman"] = package

    from ferryman.embedded import watchdog  # noqa: PLC0415 - needs the stand-in

    watchdog.main(sys.argv[1])


if __name__ == "__main__":
    main()
