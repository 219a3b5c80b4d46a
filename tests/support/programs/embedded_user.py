"""Uses the embedded server of a folder until its input ends."""

import sys
from datetime import timedelta
from importlib.util import find_spec
from types import ModuleType

# A stand-in for the top package: many users are started, and none needs the rest of it.
top = ModuleType("ferryman")
top.__path__ = find_spec("ferryman").submodule_search_locations
sys.modules["ferryman"] = top

from ferryman.embedded import EmbeddedPostgres  # noqa: E402 - needs the stand-in

folder, linger = sys.argv[1], timedelta(seconds=float(sys.argv[2]))
with EmbeddedPostgres(folder, linger=linger, settings={"fsync": "off"}) as server:
    sys.stdout.write(f"{server.dsn}\n")
    sys.stdout.flush()
    sys.stdin.read()
