"""Tables of the `workers` commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from ferryman.cli.tables import GAP, SHORTEST

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def plain_table(rows: Sequence[Mapping[str, str | Text]]) -> Table:
    """One line for each row, with the names of the cells on top. A narrow terminal breaks long cells over lines."""
    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
    for name in rows[0]:
        widest = max(len(name), *(len(row[name]) for row in rows))
        table.add_column(name, overflow="fold", min_width=min(widest, SHORTEST))
    for row in rows:
        table.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in row.values()))
    return table


def counted(number: int, noun: str) -> str:
    """1 job, 2 jobs."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
