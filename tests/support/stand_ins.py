"""Other functions under the names of PostgreSQL's own, in one database.

A clock that a test moves cannot come by the search_path: our statements do not look for functions there. But the
catalogue belongs to the database, and a superuser may change it.
"""

from __future__ import annotations


def stand_in_for(name: str, definition: str) -> str:
    """SQL after which statements that say pg_catalog.`name`(), or only its name, get the function that is defined.

    The real one is called `real_…` from then on, and stays what column defaults and other stored expressions call.
    """
    return f"alter function pg_catalog.{name}() rename to real_{name}; {definition}"
