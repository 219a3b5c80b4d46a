"""A private PostgreSQL for laptops, demos and tests.

The modules here import the standard library and `ferryman.errors` only: the watchdog runs without everything else.
"""

from ferryman.embedded.binaries import ServerBinaries, find_binaries
from ferryman.embedded.folders import default_folder, make_project_folder
from ferryman.embedded.server import EmbeddedPostgres

__all__ = ["EmbeddedPostgres", "ServerBinaries", "default_folder", "find_binaries", "make_project_folder"]
