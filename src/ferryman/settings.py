"""Settings: arguments win over the environment, which wins over `[tool.ferryman]` in pyproject.toml."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ferryman.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_SCHEMA = "graphile_worker"
DEFAULT_MAX_PAYLOAD_BYTES = 1024 * 1024
POSTGRES_MAX_BYTES = 1024**3 - 1
"""No value in PostgreSQL is larger than a gigabyte."""

ENVIRONMENT = {
    "database_url": ("DATABASE_URL",),
    "schema": ("FERRYMAN_SCHEMA", "GRAPHILE_WORKER_SCHEMA"),
    "max_payload_bytes": ("FERRYMAN_MAX_PAYLOAD_BYTES",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Where the database is and how to use it.

    database_url: None means that libpq's own variables (PGHOST, PGDATABASE, PGSERVICE, …) decide
    schema: the schema that holds the queue
    max_payload_bytes: the largest payload that may be added
    """

    database_url: str | None = field(default=None, repr=False)
    schema: str = DEFAULT_SCHEMA
    max_payload_bytes: int = DEFAULT_MAX_PAYLOAD_BYTES

    def __post_init__(self) -> None:
        if self.database_url is not None and not isinstance(self.database_url, str):
            # Not shown: it may hold a password.
            raise ConfigurationError(f"database_url must be a string, not {type(self.database_url).__name__}")
        if not isinstance(self.schema, str) or not self.schema:
            raise ConfigurationError(f"schema must be the name of a schema; got {self.schema!r}")
        size = self.max_payload_bytes
        if not isinstance(size, int) or isinstance(size, bool) or not 1 <= size <= POSTGRES_MAX_BYTES:
            raise ConfigurationError(
                f"max_payload_bytes must be a whole number from 1 to {POSTGRES_MAX_BYTES:,}; got {size!r}"
            )

    @classmethod
    def load(
        cls,
        *,
        given: Mapping[str, Any] | None = None,
        environ: Mapping[str, str] | None = None,
        folder: Path | None = None,
    ) -> Settings:
        """Gather the settings. In `given`, None means that the caller said nothing."""
        chosen = _from_pyproject(folder)
        chosen |= _from_environment(os.environ if environ is None else environ)
        chosen |= {name: value for name, value in (given or {}).items() if value is not None}
        return cls(**chosen)


def _from_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, variables in ENVIRONMENT.items():
        value = next((environ[variable] for variable in variables if environ.get(variable)), None)
        if value is not None:
            found[name] = _whole_number(variables[0], value) if name == "max_payload_bytes" else value
    return found


def _whole_number(variable: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ConfigurationError(f"{variable} must be a whole number; got {text!r}") from None


def _from_pyproject(folder: Path | None) -> dict[str, Any]:
    """`[tool.ferryman]` of the nearest pyproject.toml at or above `folder`."""
    file = _nearest_pyproject(folder)
    return {} if file is None else _checked_table(file)


def _nearest_pyproject(folder: Path | None) -> Path | None:
    try:
        start = folder or Path.cwd()
        candidates = (place / "pyproject.toml" for place in (start, *start.parents))
        return next((file for file in candidates if file.is_file()), None)
    except OSError:
        # A working directory that was deleted, or that we may not look at, has no settings for us.
        return None


def _checked_table(file: Path) -> dict[str, Any]:
    table = _read(file).get("tool", {})
    table = table.get("ferryman", {}) if isinstance(table, dict) else {}
    if not isinstance(table, dict):
        raise ConfigurationError(f"tool.ferryman in {file} must be a table, [tool.ferryman]")
    for name in table:
        _check_name(name, file)
    return dict(table)


def _read(file: Path) -> dict[str, Any]:
    import tomllib  # noqa: PLC0415 - where programs run there is mostly no pyproject.toml

    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigurationError(f"{file} could not be read: {error}") from None


def _check_name(name: str, file: Path) -> None:
    known = [item.name for item in fields(Settings)]
    if name not in known:
        from difflib import get_close_matches  # noqa: PLC0415 - only for a mistake

        guess = get_close_matches(name, known, n=1)
        hint = f"did you mean {guess[0]!r}?" if guess else f"known settings: {', '.join(known)}"
        raise ConfigurationError(f"unknown setting {name!r} in [tool.ferryman] of {file}; {hint}")
