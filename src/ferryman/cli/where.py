"""Which database a command uses."""

from __future__ import annotations

import re

from ferryman.errors import ConfigurationError
from ferryman.settings import Settings

_STRAY_CHARACTER = re.compile(r"^postgres[^:]*://[^?]*[/@][^?]*@")
"""A slash or an at sign in the password: libpq would take what follows for the host, and tell everybody."""


def find_settings(database_url: str | None, schema: str | None) -> Settings:
    """The settings that options, environment and pyproject.toml make together."""
    settings = Settings.load(given={"database_url": database_url, "schema": schema})
    if _STRAY_CHARACTER.search(settings.database_url or ""):
        raise ConfigurationError(
            "the user name or the password in the database URL has an @ or a / in it, which end the password there. "
            "Write %40 for @ and %2F for /. The URL is not shown here because it holds a password."
        )
    return settings
