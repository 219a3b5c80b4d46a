"""What helps to understand a failed test: the server's log and the history of its programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from psycopg.conninfo import conninfo_to_dict

from tests.support import once
from tests.support.server import shared_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pytest

MOST_LINES = 60


def sections(item: pytest.Item) -> Iterator[tuple[str, str]]:
    """Titles and texts for the report. Only fixtures that the test has used are looked at."""
    used: dict[str, Any] = getattr(item, "funcargs", {})
    for name, value in used.items():
        if name in {"database", "empty_database"}:
            lines = _lines_about(
                str(conninfo_to_dict(value)["dbname"]), shared_server(once.folder).folder / "server.log"
            )
            yield f"PostgreSQL about {name}", _last(lines)
    if "tmp_path" in used:
        for history in sorted(used["tmp_path"].glob("*.jsonl")):
            yield history.name, _last(history.read_text(errors="replace").splitlines())


def _lines_about(database: str, log: Path) -> list[str]:
    if not log.exists():
        return ["the database is on a server of its own"]
    with log.open(errors="replace") as lines:
        return [line.rstrip() for line in lines if f" {database} " in line]


def _last(lines: list[str]) -> str:
    return "\n".join(lines[-MOST_LINES:])
