"""The `ferryman` command. Nothing but click is imported until a command is known."""

from ferryman.cli.program import program


def main() -> None:
    """Run the command that the process was started with, and exit."""
    program.main()
