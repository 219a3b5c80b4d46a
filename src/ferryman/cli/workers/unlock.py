"""`ferryman workers unlock`: the same as `ferryman unlock`."""

from copy import copy

from ferryman.cli import unlock as top

unlock = copy(top.unlock)
unlock.help = (top.unlock.help or "").replace("ferryman unlock", "ferryman workers unlock")
