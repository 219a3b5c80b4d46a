"""`python -m ferryman.cli` is `ferryman`."""

from ferryman.cli import main

main()
