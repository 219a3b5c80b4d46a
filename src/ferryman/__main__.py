"""`python -m ferryman` is `ferryman`."""

from ferryman.cli import main

main()
