"""`ferryman new`."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

import click

from ferryman.cli.clean import clean_line
from ferryman.cli.commands import output_options
from ferryman.cli.reports import emit
from ferryman.errors import ConfigurationError

EXAMPLE = '''\
"""Background jobs. Run them with `ferryman worker {module}`."""

from ferryman import App, WorkerContext

app = App()  # the database is the one that DATABASE_URL names


@app.task
async def greet(ctx: WorkerContext, name: str = "world") -> None:
    ctx.logger.info("hello, %s", name)
'''


@dataclass(frozen=True, slots=True)
class NewReport:
    """The file that was written."""

    file: Path
    exit_code: int = 0

    def document(self) -> object:
        """The file, and the name to import it by."""
        return {"file": str(self.file), "module": self.file.stem}

    def lines(self) -> list[str]:
        """What to do next."""
        place = "" if self.file.parent == Path() else f"cd {clean_line(shlex.quote(str(self.file.parent)))}\n  "
        return [
            f"Wrote {clean_line(str(self.file))}. Run its jobs, with a private PostgreSQL:",
            f"  {place}ferryman dev {self.file.stem}",
            "That prints an `export DATABASE_URL=…`. With it, in another terminal, add a job:",
            """  ferryman jobs add greet '{"name": "Ann"}'""",
        ]


@click.command()
@click.argument("file", type=click.Path(path_type=Path), default=Path("tasks.py"))
@output_options
def new(*, file: Path, as_json: bool) -> int:
    """Write a small application to start from.

    FILE is tasks.py unless you say otherwise. A file that is there already is never touched.

    \b
    Example:
      ferryman new tasks.py
    """
    if file.suffix != ".py" or not file.stem.isidentifier():
        raise ConfigurationError(f"Python could not import {str(file)!r}; choose a name such as tasks.py.")
    try:
        with file.open("x", encoding="utf-8") as opened:
            opened.write(EXAMPLE.format(module=file.stem))
    except FileExistsError:
        raise ConfigurationError(f"{str(file)!r} is there already, and was left as it is.") from None
    return emit(NewReport(file), as_json=as_json)
