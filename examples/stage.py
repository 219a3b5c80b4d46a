"""What the acts of the demo share: a place to tell and show things, and a list of facts."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rich.syntax import Syntax
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg
    from rich.console import Console

    from ferryman import SyncClient


@dataclass(frozen=True, slots=True)
class Fact:
    claim: str
    expected: object
    found: object

    @property
    def is_so(self) -> bool:
        return self.expected == self.found


@dataclass(frozen=True, slots=True)
class Stage:
    console: Console
    client: SyncClient
    database: psycopg.Connection[Any]
    facts: list[Fact] = field(default_factory=list)

    def chapter(self, title: str, code: str, language: str = "python") -> None:
        self.console.print(Text(f"\n{title}", "bold cyan"))
        self.console.print(Syntax(code, language, theme="ansi_dark", word_wrap=True))

    def tell(self, text: str) -> None:
        self.console.print(Text(f"→ {text}", "green"))

    def check(self, claim: str, expected: object, found: object) -> None:
        self.facts.append(Fact(claim, expected, found))

    def ask(self, query: str, *parameters: object) -> Any:
        row = self.database.execute(query, parameters).fetchone()
        return row[0] if row else None


def wait_until(is_so: Callable[[], bool]) -> None:
    """Look now and then; what is still not so after a minute shows in the table of facts."""
    deadline = time.monotonic() + 60
    while not is_so() and time.monotonic() < deadline:
        time.sleep(0.1)
