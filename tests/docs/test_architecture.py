"""docs/architecture.md names files and functions that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "ferryman"
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
STEPS = re.findall(r"`([\w/]+\.py)`(?: \|,?|,)\s`([\w.]+)`", PAGE)
WALK = PAGE[PAGE.index("## Walk 2") : PAGE.index("## Walk 3")]


@pytest.mark.parametrize(("file", "name"), STEPS)
def test_a_step_names_a_function_that_exists(file: str, name: str) -> None:
    assert name in _names(ast.parse((SOURCE / file).read_text(encoding="utf-8")))


def test_every_step_was_read() -> None:
    assert len(STEPS) == len(re.findall(r"`[\w/]+\.py`(?= \||,)", PAGE)) > 40


def test_the_walk_of_a_job_takes_fifteen_modules_at_most_and_none_of_them_assembles_the_worker() -> None:
    walked = {file for file, _ in STEPS if f"| `{file}` |" in WALK}
    assert len(walked - {"worker/claiming/local_queue.py"}) <= 15, "a worker has one source"
    assert not {"worker/life.py", "worker/parts.py"} & walked


def _names(tree: ast.Module) -> set[str]:
    """Functions, classes and variables of a module, and `Class.method`."""
    found: set[str] = set()
    for node in tree.body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                found.add(node.name)
            case ast.ClassDef():
                found |= {node.name, *(f"{node.name}.{each.name}" for each in node.body if hasattr(each, "name"))}
            case ast.Assign():
                found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return found
