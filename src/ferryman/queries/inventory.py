"""All statements of the `queries` folders, and which modules call each one."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import ferryman
from ferryman.database.steps import Script
from ferryman.errors import ConfigurationError
from ferryman.queries import FOLDERS, Query

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

SOURCE = Path(ferryman.__file__).parent


def all_queries() -> Iterator[Query[Any]]:
    """Every query, folder by folder, in the order in which its folder defines them."""
    for folder in FOLDERS:
        found = vars(import_module(f"ferryman.queries.{folder}")).values()
        yield from (each for each in found if isinstance(each, Query) and each.folder == folder)


def all_scripts() -> Iterator[tuple[str, str, Script]]:
    """Every script: its folder, the name of its constant, and the script."""
    for folder in FOLDERS:
        for name, each in vars(import_module(f"ferryman.queries.{folder}")).items():
            if isinstance(each, Script):
                yield folder, name, each


def find_query(name: str) -> Query[Any]:
    """Find a query by its name."""
    for each in all_queries():
        if each.__name__ == name:
            return each
    raise ConfigurationError(f"no query is named {name!r}; `python -m ferryman.queries` lists all of them")


def callers() -> dict[tuple[str, str], list[str]]:
    """The modules that import each name of a folder, or use it as an attribute of the folder: `checks.server`."""
    found: dict[tuple[str, str], list[str]] = {}
    for file in sorted(SOURCE.rglob("*.py")):
        if file.is_relative_to(SOURCE / "queries"):
            continue
        text = file.read_text(encoding="utf-8")
        if "ferryman.queries" in text:
            module = ".".join(file.relative_to(SOURCE).with_suffix("").parts)
            for each in sorted(_names_in(ast.parse(text))):
                found.setdefault(each, []).append(module)
    return found


def _names_in(tree: ast.Module) -> set[tuple[str, str]]:
    """Folder and name of what a module imports from the folders."""
    names: set[tuple[str, str]] = set()
    folders: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "ferryman.queries":
            folders.update((alias.asname or alias.name, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("ferryman.queries."):
            folder = node.module.removeprefix("ferryman.queries.")
            names.update((folder, alias.name) for alias in node.names)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in folders:
            names.add((folders[node.value.id], node.attr))
    return names
