"""The `ferryman` command. Nothing but click is imported until a command is known."""

import sys

from ferryman.cli.beginning import begin, imported


def main() -> None:
    """Run the command that the process was started with, and exit."""
    begin(sys.argv[1:])
    from ferryman.cli.program import program  # noqa: PLC0415 - signals are heard first

    imported()
    program.main()
