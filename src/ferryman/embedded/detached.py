"""The script that is started to become the watchdog of a private server.

It is run by its path. `python -m` would import all of Ferryman first, database driver included, which is slow and can
be broken. The script puts an empty stand-in in the place of the package, so that only the modules of this folder and
`ferryman.errors` are loaded. They need nothing but the standard library.
"""

import os
import sys
from pathlib import Path
from types import ModuleType


def main() -> None:
    """Detach from the process that started this script, then run the watchdog."""
    if os.fork():
        os._exit(0)  # the caller waits for this process only; the watchdog is not its child
    package = ModuleType("ferryman")
    package.__path__ = [str(Path(__file__).parents[1])]
    sys.modules["ferryman"] = package

    from ferryman.embedded import watchdog  # noqa: PLC0415 - needs the stand-in

    watchdog.main(sys.argv[1])


if __name__ == "__main__":
    main()
