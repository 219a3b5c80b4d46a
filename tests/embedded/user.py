"""Uses the embedded server of a folder until its input ends."""

import sys
from datetime import timedelta

from ferryman.embedded import EmbeddedPostgres

folder, linger = sys.argv[1], timedelta(seconds=float(sys.argv[2]))
with EmbeddedPostgres(folder, linger=linger, settings={"fsync": "off"}) as server:
    sys.stdout.write(f"{server.dsn}\n")
    sys.stdout.flush()
    sys.stdin.read()
