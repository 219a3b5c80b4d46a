"""Settings from arguments, else from the environment, else from `[tool.ferryman]` in pyproject.toml."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ferryman.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

DEFAULT_SCHEMA = "graphile_worker"
DEFAULT_MAX_PAYLOAD_BYTES = 1024 * 1024
POSTGRES_MAX_BYTES = 1024**3 - 1
"""No value in PostgreSQL is larger than a gigabyte."""

ENVIRONMENT = {
    "database_url": ("DATABASE_URL",),
    "schema": ("FERRYMAN_SCHEMA", "GRAPHILE_WORKER_SCHEMA"),
    "max_payload_bytes": ("FERRYMAN_MAX_PAYLOAD_BYTES",),
    "tracing": ("FERRYMAN_TRACING",),
}
_TRUTHS = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The address of the database, and how to use it.

    database_url: None means that libpq's own variables (PGHOST, PGDATABASE, PGSERVICE, …) decide
    schema: the schema that holds the queue
    max_payload_bytes: the largest payload that may be added
    tracing: True reports jobs to OpenTelemetry if the program has loaded it
    """

    database_url: str | None = field(default=None, repr=False)
    schema: str = DEFAULT_SCHEMA
    max_payload_bytes: int = DEFAULT_MAX_PAYLOAD_BYTES
    tracing: bool = True

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
        if not isinstance(self.tracing, bool):
            raise ConfigurationError(f"tracing must be True or False; got {self.tracing!r}")

    @classmethod
    def load(
        cls,
        *,
        given: Mapping[str, Any] | None = None,
        environ: Mapping[str, str] | None = None,
        folder: Path | None = None,
    ) -> Settings:
        """Gather the settings. A None in `given` counts as left out."""
        chosen = _from_environment(os.environ if environ is None else environ)
        chosen |= {name: value for name, value in (given or {}).items() if value is not None}
        is_needed = not {"database_url", "schema"} <= chosen.keys()
        return cls(**_from_pyproject(folder, is_needed=is_needed) | chosen)


def _from_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, variables in ENVIRONMENT.items():
        value = next((environ[variable] for variable in variables if environ.get(variable)), None)
        if value is not None:
            found[name] = _READERS[name](variables[0], value) if name in _READERS else value
    return found


def _whole_number(variable: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ConfigurationError(f"{variable} must be a whole number; got {text!r}") from None


def _truth(variable: str, text: str) -> bool:
    try:
        return _TRUTHS[text.strip().lower()]
    except KeyError:
        raise ConfigurationError(f"{variable} must be one of {', '.join(_TRUTHS)}; got {text!r}") from None


_READERS: dict[str, Callable[[str, str], Any]] = {"max_payload_bytes": _whole_number, "tracing": _truth}
"""The functions that read settings other than text from their variables."""


def _from_pyproject(folder: Path | None, *, is_needed: bool) -> dict[str, Any]:
    """Read the settings in `[tool.ferryman]` of the nearest pyproject.toml at or above `folder`.

    is_needed: False ignores a file that cannot be read, as during a merge
    """
    file = _nearest_pyproject(folder)
    return {} if file is None else _checked_table(file, is_needed=is_needed)


def _nearest_pyproject(folder: Path | None) -> Path | None:
    try:
        start = folder or Path.cwd()
        candidates = (place / "pyproject.toml" for place in (start, *start.parents))
        return next((file for file in candidates if file.is_file()), None)
    except OSError:
        # The working directory was deleted, or may not be read: it has no settings.
        return None


def _checked_table(file: Path, *, is_needed: bool) -> dict[str, Any]:
    table = _read(file, is_needed=is_needed).get("tool", {})
    table = table.get("ferryman", {}) if isinstance(table, dict) else {}
    if not isinstance(table, dict):
        raise ConfigurationError(f"tool.ferryman in {file} must be a table, [tool.ferryman]")
    for name in table:
        _check_name(name, file)
    url = table.get("database_url")
    return table | {"database_url": _anchored(url, file.parent)} if isinstance(url, str) else dict(table)


def _anchored(url: str, folder: Path) -> str:
    """Make the relative path in a URL `embedded:path` absolute: it is relative to the file's folder."""
    scheme, _, path = url.partition(":")
    is_relative = scheme == "embedded" and path and not path.startswith(("/", "~"))
    return f"embedded:{folder / path}" if is_relative else url


def _read(file: Path, *, is_needed: bool) -> dict[str, Any]:
    import tomllib  # noqa: PLC0415 - where programs run there is mostly no pyproject.toml

    text = None
    try:
        text = file.read_text(encoding="utf-8")
        return tomllib.loads(text)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        says_nothing = text is not None and "ferryman" not in text
        if says_nothing or not is_needed:
            return {}
        raise ConfigurationError(f"{file} could not be read, so its settings are unknown. Repair it: {error}") from None


def _check_name(name: str, file: Path) -> None:
    known = [item.name for item in fields(Settings)]
    if name not in known:
        from difflib import get_close_matches  # noqa: PLC0415 - only for a mistake

        guess = get_close_matches(name, known, n=1)
        hint = f"did you mean {guess[0]!r}?" if guess else f"known settings: {', '.join(known)}"
        raise ConfigurationError(f"unknown setting {name!r} in [tool.ferryman] of {file}; {hint}")
