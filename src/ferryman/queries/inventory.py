"""All statements of the folders, and which modules call each one."""

from __future__ import annotations

import ast
import re
from enum import EnumType
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

import ferryman
from ferryman.database.steps import Script
from ferryman.errors import ConfigurationError
from ferryman.queries import FOLDERS, Query

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ferryman.database.statements import Statement

SOURCE = Path(ferryman.__file__).parent

_FIRST_SENTENCE = re.compile(r".*?\.(?=\s|$)", re.DOTALL)


class Listed(msgspec.Struct, frozen=True):
    """A statement of a folder.

    handles: by which names other modules import it
    about: what it does, in one sentence
    """

    folder: str
    name: str
    statement: Statement
    handles: Sequence[str]
    about: str


def all_queries() -> Iterator[Query[Any]]:
    """Every query, folder by folder."""
    for folder in FOLDERS:
        found = vars(import_module(f"ferryman.queries.{folder}")).values()
        yield from (each for each in found if isinstance(each, Query) and each.folder == folder)


def all_statements() -> Iterator[Listed]:
    """Every statement, folder by folder: those of queries, and scripts."""
    for folder in FOLDERS:
        found = vars(import_module(f"ferryman.queries.{folder}"))
        enums = {name: {*each} for name, each in found.items() if isinstance(each, EnumType)}
        for name, each in found.items():
            if isinstance(each, Query) and each.folder == folder:
                choices = [enum for enum, members in enums.items() if each in {member.value for member in members}]
                about = _first_sentence(each.__doc__ or "")
                yield Listed(folder, each.__name__, each.statement, [name, *choices], about)
            elif isinstance(each, Script):
                comment = re.sub(r"^-- ?", "", each.statement.source, flags=re.MULTILINE)
                yield Listed(folder, each.statement.name, each.statement, [name], _first_sentence(comment))


def find_query(name: str) -> Query[Any]:
    """Find a query by its name."""
    for each in all_queries():
        if each.__name__ == name:
            return each
    raise _unknown(name)


def find_statement(name: str) -> Listed:
    """Find a statement by its name."""
    for each in all_statements():
        if each.name == name:
            return each
    raise _unknown(name)


def callers() -> Mapping[tuple[str, str], Sequence[str]]:
    """The modules that use each name of a folder: they import it, or the folder, as in `checks.server`."""
    found: dict[tuple[str, str], list[str]] = {}
    for file in sorted(SOURCE.rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        if "ferryman.queries" in text and not file.is_relative_to(SOURCE / "queries"):
            module = ".".join(file.relative_to(SOURCE).with_suffix("").parts)
            for each in sorted(_names_in(ast.parse(text))):
                found.setdefault(each, []).append(module)
    return found


def _names_in(tree: ast.Module) -> set[tuple[str, str]]:
    """Folder and name of what a module uses."""
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


def _first_sentence(text: str) -> str:
    found = _FIRST_SENTENCE.match(text.strip())
    return " ".join(found[0].split()) if found else ""


def _unknown(name: str) -> ConfigurationError:
    return ConfigurationError(f"no statement is named {name!r}. `python -m ferryman.queries` lists all of them.")
