"""The `ferryman` command. Only click is imported until the command to run is known."""

import sys

from ferryman.cli.early_signals import imports_done, prepare


def main() -> None:
    """Run the command that the process was started with, and exit."""
    prepare(sys.argv[1:])
    from ferryman.cli.program import program  # noqa: PLC0415 - signals are handled first

    imports_done()
    program.main()
