"""Settings: arguments win over the environment, which wins over `[tool.ferryman]` in pyproject.toml."""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ferryman.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_SCHEMA = "graphile_worker"
DEFAULT_MAX_PAYLOAD_BYTES = 1024 * 1024

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
        if not isinstance(self.max_payload_bytes, int) or self.max_payload_bytes < 1:
            raise ConfigurationError(
                f"max_payload_bytes must be a whole number of at least 1; got {self.max_payload_bytes!r}"
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
        chosen = _from_pyproject(folder or Path.cwd())
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


def _from_pyproject(folder: Path) -> dict[str, Any]:
    """`[tool.ferryman]` of the nearest pyproject.toml at or above `folder`."""
    for candidate in (folder, *folder.parents):
        file = candidate / "pyproject.toml"
        if file.is_file():
            return _checked_table(file)
    return {}


def _checked_table(file: Path) -> dict[str, Any]:
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigurationError(f"{file} could not be read: {error}") from None
    table = document.get("tool", {}).get("ferryman", {})
    known = [item.name for item in fields(Settings)]
    for name in table:
        if name not in known:
            guess = get_close_matches(name, known, n=1)
            hint = f"did you mean {guess[0]!r}?" if guess else f"known settings: {', '.join(known)}"
            raise ConfigurationError(f"unknown setting {name!r} in [tool.ferryman] of {file}; {hint}")
    return dict(table)
