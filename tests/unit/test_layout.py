"""Where things are: what the import arrows cannot say."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCE = Path(__file__).parents[2] / "src" / "ferryman"
STATEMENT = re.compile(r"\s*(select|insert into|update|delete from|with|lock table|alter|create|drop)\s")
QUOTED = re.compile(rf"[\"']{STATEMENT.pattern}")
ADVICE = SOURCE / "health"
"""It writes statements for a person to run."""


def statements(file: Path) -> Iterator[str]:
    """Texts in a module that begin as statements do: in small letters, as all of ours."""
    text = file.read_text(encoding="utf-8")
    if not QUOTED.search(text):
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and STATEMENT.match(node.value):
            yield f"{file.relative_to(SOURCE)}:{node.lineno}: {node.value[:60]}"


def test_statements_are_in_sql_files_and_not_in_python() -> None:
    modules = [file for file in SOURCE.rglob("*.py") if ADVICE not in file.parents]
    assert len(modules) > 100
    assert [found for file in modules for found in statements(file)] == []
