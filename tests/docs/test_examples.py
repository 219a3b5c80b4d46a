"""Every Python example in the README and the docs runs, in the order of its page, on a real database."""

from __future__ import annotations

import ast
import inspect
import re
import sys
import types
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```python(?P<mark>[^\n]*)\n(?P<code>.*?)^```$", re.DOTALL | re.MULTILINE)


def _examples(page: Path) -> list[tuple[int, str]]:
    """The line and the code of each example, except those marked `notest`."""
    text = page.read_text(encoding="utf-8")
    return [
        (text[: match.start("code")].count("\n"), match["code"])
        for match in BLOCK.finditer(text)
        if "notest" not in match["mark"]
    ]


def _ids(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", [page for page in PAGES if _examples(page)], ids=_ids)
async def test_the_examples_on_this_page_run(
    page: Path, database: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DATABASE_URL", database)
    module = types.ModuleType("example")
    monkeypatch.setitem(sys.modules, "example", module)
    for line, code in _examples(page):
        # Blank lines in front make a traceback point to the line on the page.
        compiled = compile("\n" * line + code, str(page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        result = eval(compiled, module.__dict__)
        if inspect.isawaitable(result):
            await result
