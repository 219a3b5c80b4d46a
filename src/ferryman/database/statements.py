"""Reads the SQL files, and spells their statements as each driver wants them.

A statement is written once, with the schema as `:schema` and its parameters by name (`:job_ids`), so that it can be
read, and run in psql, as it stands. Drivers want other spellings; this module is the only place that knows them.
A line `-- include: parts/NAME` stands for the text of NAME.sql in `ferryman/queries/parts`.
"""

from __future__ import annotations

import os
import re
from enum import Enum
from functools import cache, cached_property, lru_cache
from importlib import import_module
from operator import itemgetter
from typing import TYPE_CHECKING, Any, LiteralString, assert_never

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ferryman.database.identifiers import SchemaName

_INCLUDE = re.compile(r"^[ \t]*-- include: (parts/\w+)$", re.MULTILINE)
_COMMENT = re.compile(r"^[ \t]*--.*\n?|[ \t]+-- .*$", re.MULTILINE)
_PLACEHOLDER = re.compile(r"(?<![:\w]):([a-z_][a-z0-9_]*)")
"""`:name`, but neither the cast `::json` nor the end of a word, as in 'jobs:insert'."""
_MOST_SCHEMAS = 256
"""For how many schemas a statement keeps its texts."""


class Style(Enum):
    """How a driver spells a parameter."""

    NUMBERED = "$1"
    """psycopg's raw cursors and asyncpg."""
    NAMED = ":name"
    """SQLAlchemy's `text()`, where every other colon must be escaped."""
    FORMATTED = "%(name)s"
    """Django's cursors, where every other percent sign must be doubled."""

    __hash__ = object.__hash__  # Enum's own is written in Python, and every statement that is sent asks for it


class Statement:
    """One SQL file. Its text is read at once, so that a running program never mixes two releases.

    A program sends few of all statements. So the slow work on a statement is done when it is first sent.

    is_qualified: whether it means the same with any search_path, as do the functions that it calls
    """

    def __init__(self, name: str, source: str, *, is_qualified: bool = False) -> None:
        self.name = name
        self.is_qualified = is_qualified
        self.source = source
        """The SQL with its comments; `-- from parts/NAME.sql` stands above what was included."""
        self._texts: dict[Style, dict[SchemaName, LiteralString]] = {style: {} for style in Style}

    def __repr__(self) -> str:
        return f"Statement({self.name!r})"

    @cached_property
    def template(self) -> str:
        """The SQL without its comments."""
        return _COMMENT.sub("", self.source).strip()

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        """The names of the values that it takes, in the order of the numbered style."""
        placeholders = dict.fromkeys(match[1] for match in _PLACEHOLDER.finditer(self.template))
        return tuple(name for name in placeholders if name != "schema")

    def text(self, schema: SchemaName, style: Style) -> LiteralString:
        """The SQL for one schema, as one kind of driver wants it.

        As safe as a literal: nothing but our own files and a quoted name goes into it.
        """
        texts = self._texts[style]
        text = texts.get(schema)
        if text is None:
            if len(texts) >= _MOST_SCHEMAS:
                texts.clear()
            text = texts[schema] = _rendered(self, schema, style)
        return text

    def ordered(self, values: Mapping[str, Any]) -> tuple[Any, ...]:
        """The values in the order of the numbered style."""
        return self._pick(values)

    @cached_property
    def _pick(self) -> Callable[[Mapping[str, Any]], tuple[Any, ...]]:
        names = self.parameters
        match names:
            case ():
                return lambda _: ()
            case (name,):
                return lambda values: (values[name],)
        return itemgetter(*names)  # which gives a tuple only for several names


def load_statement(package: str, name: str, *, is_qualified: bool = False) -> Statement:
    """Read `name`.sql from the folder of `package`, or from a folder below it: the name is then a path."""
    return Statement(name.rpartition("/")[2], _source(_folder(package), name), is_qualified=is_qualified)


@lru_cache
def _folder(package: str) -> str:
    # importlib.resources could read from a zipped package too, which the driver cannot live in; it takes twice as long.
    [folder] = import_module(package).__path__
    return str(folder)


_QUERIES = os.path.join(os.path.dirname(os.path.dirname(__file__)), "queries")  # noqa: PTH118, PTH120 - see below


@cache
def _source(folder: str, name: str) -> str:
    # Parts are included by several files. Without pathlib: there are more than a hundred files to read at the start.
    with open(f"{folder}/{name}.sql", encoding="utf-8") as file:  # noqa: PTH123
        text = file.read()
    if "-- include: " not in text:
        return text
    return _INCLUDE.sub(lambda match: f"-- from {match[1]}.sql\n{_source(_QUERIES, match[1])}", text)


def _rendered(statement: Statement, schema: SchemaName, style: Style) -> LiteralString:
    pieces, position = [], 0
    for match in _PLACEHOLDER.finditer(statement.template):
        pieces.append(_escaped(statement.template[position : match.start()], style))
        pieces.append(_spelled(statement, match[1], schema, style))
        position = match.end()
    pieces.append(_escaped(statement.template[position:], style))
    return "".join(pieces)


def _spelled(statement: Statement, name: str, schema: SchemaName, style: Style) -> str:
    if name == "schema":
        return _escaped(str(schema), style)
    match style:
        case Style.NUMBERED:
            return f"${statement.parameters.index(name) + 1}"
        case Style.NAMED:
            return f":{name}"
        case Style.FORMATTED:
            return f"%({name})s"
        case never:
            assert_never(never)


def _escaped(sql: str, style: Style) -> str:
    match style:
        case Style.NUMBERED:
            return sql
        case Style.NAMED:
            return sql.replace(":", "\\:")
        case Style.FORMATTED:
            return sql.replace("%", "%%")
        case never:
            assert_never(never)
