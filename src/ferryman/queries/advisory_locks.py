"""The numbers of Ferryman's advisory locks. Each has two halves: a class, and a key within it."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ferryman.database.identifiers import SchemaName

SESSION_CLASS = 0x46524C46
"""The class of workers' session locks, which are held while the session lasts; the key is the worker's session key."""
SWEEP_LOCK_CLASS = 0x46525357
"""The class of the lock of a sweep ("FRSW"); the key is a hash of the schema's name."""
RETENTION_LOCK_CLASS = 0x46525254
"""The class of the lock of retention ("FRRT"); the key is a hash of the schema's name."""
WATCH_CLASS = 0x46525754
"""The class of the watcher's lock ("FRWT"); the key is `watch_key`."""
LARGEST_KEY = 2**31 - 1


def watch_key(schema: SchemaName) -> int:
    """The key of a schema's watcher. Not negative, since PostgreSQL shows the halves of locks unsigned."""
    return zlib.crc32(schema.name.encode()) & LARGEST_KEY
