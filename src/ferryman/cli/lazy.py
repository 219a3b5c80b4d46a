"""Groups that import a command only when it is about to run."""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Mapping


class LazyGroup(click.Group):
    """A group whose commands are named as `module:attribute`, each with its line for the help page.

    The line is repeated here because asking the command for it would import everything that the command needs.
    """

    def __init__(self, *args: Any, loads: Mapping[str, tuple[str, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.loads = loads

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Whoever asks for nothing gets the help page."""
        return super().parse_args(ctx, args or ["--help"])

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """The names, in the order in which they are told."""
        return list(self.loads)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        """Import the command; None when there is none of that name."""
        if cmd_name not in self.loads:
            return None
        module, _, attribute = self.loads[cmd_name][0].partition(":")
        command = getattr(import_module(module), attribute)
        self.commands[cmd_name] = command
        return command  # type: ignore[no-any-return]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or say which names there are."""
        if args[0] not in self.loads and not args[0].startswith("-"):
            raise click.UsageError(f"there is no command {args[0]!r}. {self._hint(args[0])}", ctx)
        return super().resolve_command(ctx, args)

    def _hint(self, name: str) -> str:
        likely = get_close_matches(name, self.loads, n=1)
        return f"Did you mean {likely[0]!r}?" if likely else f"The commands are: {', '.join(self.loads)}."

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's signature
        """The commands of the help page, without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in self.loads.items()])
