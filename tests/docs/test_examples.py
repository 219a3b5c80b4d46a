"""Every Python example in the README and the docs runs, in the order of its page, on a real database."""

from __future__ import annotations

import ast
import inspect
import re
import runpy
import sys
import types
from pathlib import Path

import pytest

from tests.support.tracing_library import loadable

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
    with loadable():
        for line, code in _examples(page):
            # Blank lines in front make a traceback point to the line on the page.
            compiled = compile("\n" * line + code, str(page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            result = eval(compiled, module.__dict__)
            if inspect.isawaitable(result):
                await result


def test_the_program_in_the_readme_runs_as_pasted_on_an_empty_database(
    empty_database: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    [(_, code)] = _examples(ROOT / "README.md")
    private_server = 'App("embedded:")'
    assert private_server in code
    monkeypatch.setenv("DATABASE_URL", empty_database)
    program = tmp_path / "hello.py"
    program.write_text(code.replace(private_server, "App()"), encoding="utf-8")  # the server of the tests instead

    runpy.run_path(str(program), run_name="__main__")

    assert capsys.readouterr().out == "to ann@example.com: Hello\n"
