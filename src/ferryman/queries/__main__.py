"""Lists all statements, or prints one: `python -m ferryman.queries [NAME] [--schema SCHEMA] [--psql]`."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

from ferryman.database.identifiers import SchemaName
from ferryman.errors import ConfigurationError
from ferryman.queries.inventory import all_statements, callers, find_statement
from ferryman.queries.printing import for_psql, parameter_table, sent

if TYPE_CHECKING:
    from collections.abc import Iterator


def main(arguments: list[str] | None = None) -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(
        "python -m ferryman.queries", description="List Ferryman's SQL, or print a statement."
    )
    parser.add_argument("name", nargs="?", help="the statement to print; none lists all of them")
    parser.add_argument("--schema", default="graphile_worker", help="the schema to name in it (default: %(default)s)")
    parser.add_argument("--psql", action="store_true", help="print what psql needs to run and explain it")
    given = parser.parse_args(arguments)
    try:
        lines = _listed() if given.name is None else _printed(given.name, SchemaName(given.schema), psql=given.psql)
        sys.stdout.writelines(f"{line}\n" for line in lines)
        sys.stdout.flush()
    except ConfigurationError as error:
        parser.error(str(error))
    except BrokenPipeError:  # its reader has seen enough, as `head` does
        # Python flushes stdout once more at exit, and would fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


def _listed() -> Iterator[str]:
    users, folder = callers(), ""
    listed = list(all_statements())
    widest = max(len(each.name) for each in listed)
    for each in listed:
        if each.folder != folder:
            folder = each.folder
            yield f"{folder}/"
        modules = [module for handle in each.handles for module in users.get((each.folder, handle), ())]
        yield f"  {each.name:<{widest}}  {each.about}  [{', '.join(modules)}]"


def _printed(name: str, schema: SchemaName, *, psql: bool) -> Iterator[str]:
    statement = find_statement(name).statement
    if psql:
        yield from for_psql(statement, schema)
        return
    yield sent(statement, schema)
    if statement.parameters:
        yield ""
        yield from parameter_table(statement)


if __name__ == "__main__":
    main()
