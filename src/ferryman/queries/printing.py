"""One statement as text to read, or to run in psql."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ferryman.database.statements import load_statement

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ferryman.database.identifiers import SchemaName
    from ferryman.database.statements import Statement

_COMMENT_OR_PLACEHOLDER = re.compile(r"(?:^|[ \t])--.*$|(?<![:\w]):([a-z_][a-z0-9_]*)", re.MULTILINE)
_EXPLAINED = re.compile(r"^-- ((?::\w+, )*:\w+) {2,}(.+)$", re.MULTILINE)
_SETTING = re.compile(r"pg_catalog\.set_config\('\w+', '[^']*', false\)")
_CAN_BE_PREPARED = ("select", "with", "insert", "update", "delete")


def sent(statement: Statement, schema: SchemaName) -> str:
    """The statement as a worker sends it, with the comments of its file and of the parts that it includes."""

    def spelled(match: re.Match[str]) -> str:
        match match[1]:
            case None:
                return match[0]
            case "schema":
                return str(schema)
            case name:
                return f"${statement.parameters.index(name) + 1}"

    return _COMMENT_OR_PLACEHOLDER.sub(spelled, statement.source).rstrip()


def parameter_table(statement: Statement) -> Iterator[str]:
    """A line for each parameter: number, name, the type that it is cast to, and the comment that explains it."""
    about = _explanations(statement)
    types = [_type_of(statement, name) for name in statement.parameters]
    widest_name = max(map(len, statement.parameters), default=0)
    widest_type = max(map(len, types), default=0)
    for number, (name, type_) in enumerate(zip(statement.parameters, types, strict=True), 1):
        line = f"${number:<2} = :{name:<{widest_name}}  {type_:<{widest_type}}  {about.get(name, '')}"
        yield line.rstrip()


def for_psql(statement: Statement, schema: SchemaName) -> Iterator[str]:
    """Lines for psql: a worker's settings, the prepared statement, and an `explain` whose values are to be filled in.

    The effect is rolled back. A statement that cannot be prepared, such as `alter index`, is printed as it is.
    """
    if not statement.template.startswith(_CAN_BE_PREPARED):
        yield sent(statement, schema)
        return
    yield "-- The settings of a worker's session; see steady_plans.sql."
    settings = _SETTING.findall(load_statement("ferryman.database", "steady_plans").source)
    yield "select"
    yield ",\n".join(f"    {setting}" for setting in settings) + ";"
    yield ""
    yield f"prepare {statement.name} as"
    yield f"{sent(statement, schema).rstrip(';')};"
    yield ""
    yield "begin;"
    yield f"explain (analyze, buffers) execute {statement.name}"
    if statement.parameters:
        yield "("
        last = len(statement.parameters) - 1
        for number, line in enumerate(parameter_table(statement)):
            yield f"    null{'' if number == last else ','}  -- {line}"
        yield ")"
    yield ";"
    yield "rollback;"


def _explanations(statement: Statement) -> dict[str, str]:
    found: dict[str, str] = {}
    for names, about in _EXPLAINED.findall(statement.source):
        for name in names.split(", "):
            if found.get(name[1:], "see ").startswith("see "):
                found[name[1:]] = about
    return found


def _type_of(statement: Statement, name: str) -> str:
    cast = re.search(rf":{name} as (?:pg_catalog\.)?([\w ]+(?:\[\])?)\)", statement.template)
    return cast[1] if cast else "any type"
