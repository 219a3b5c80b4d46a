"""Public names are imported when they are first used, and nobody need notice."""

from __future__ import annotations

import ast
import inspect
import pydoc
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import ferryman
import ferryman.cron
import ferryman.hooks
import ferryman.worker

if TYPE_CHECKING:
    from types import ModuleType

PACKAGES = [ferryman, ferryman.cron, ferryman.hooks, ferryman.worker]
NAMES = [(package, name) for package in PACKAGES for name in package.__all__]


@pytest.mark.parametrize(("package", "name"), NAMES)
def test_every_public_name_is_there_and_listed(package: ModuleType, name: str) -> None:
    assert getattr(package, name) is not None
    assert name in dir(package)


@pytest.mark.parametrize("package", PACKAGES)
def test_type_checkers_see_the_same_objects(package: ModuleType) -> None:
    tree = ast.parse(Path(str(package.__file__)).read_text())
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    seen = {alias.name: node.module for node in imports for alias in node.names if alias.name in package.__all__}

    assert {*package.__all__} - {"__version__"} == {*seen}
    for name, module in seen.items():
        assert getattr(import_module(str(module)), name) is getattr(package, name)


@pytest.mark.parametrize("package", [ferryman, ferryman.cron, ferryman.worker])
def test_a_name_that_is_not_there_is_refused_as_usual(package: ModuleType) -> None:
    with pytest.raises(AttributeError, match=f"module {package.__name__!r} has no attribute 'nothing'"):
        package.nothing  # noqa: B018 - looking is the test


def test_public_modules_are_names_of_the_package() -> None:
    modules = "client context cron embedded errors health hooks jobs recovery retries schema tasks worker"
    program = f"import ferryman\nfor name in {modules.split()}: print(getattr(ferryman, name).__name__)"
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert said.split() == [f"ferryman.{name}" for name in modules.split()]


@pytest.mark.parametrize("package", PACKAGES)
def test_help_shows_every_public_name(package: ModuleType) -> None:
    shown = pydoc.render_doc(package, renderer=pydoc.plaintext)

    assert [name for name in package.__all__ if name not in shown and name != "__version__"] == []


CLASSES = [*dict.fromkeys(found for package, name in NAMES if inspect.isclass(found := getattr(package, name)))]


@pytest.mark.parametrize("value", CLASSES)
def test_help_can_be_asked_about_every_public_class(value: type) -> None:
    assert value.__name__ in pydoc.render_doc(value, renderer=pydoc.plaintext)
