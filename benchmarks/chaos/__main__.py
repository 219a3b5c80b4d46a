"""The command `python -m benchmarks.chaos`; the package's docstring explains it."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from benchmarks.chaos import checker
from benchmarks.chaos.directing import run_chaos
from benchmarks.chaos.past import translated
from benchmarks.kill.__main__ import add_usual_options, again_with_server, perform, pronounce, read_history

if TYPE_CHECKING:
    from pathlib import Path


def main() -> int:
    options = _options()
    if options.judge is not None:
        return _judge(options.judge)
    if options.database_url is None:
        return again_with_server("benchmarks.chaos")
    title = f"{options.minutes:g} minutes of chaos, seed {options.seed}"
    seconds, kills, seed = options.minutes * 60, options.kills, options.seed
    return perform(title, lambda stage: run_chaos(stage, seconds=seconds, kills=kills, seed=seed), _judge, options)


def _judge(folder: Path) -> int:
    lines = read_history(folder)
    return pronounce(checker.judge(lines), translated(lines))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Kill and freeze workers while others hold and change the rows of their jobs."
    )
    parser.add_argument("--minutes", type=float, default=1.0, help="for how long (default: 1)")
    parser.add_argument("--kills", type=int, default=1, help="and until so many workers were killed (default: 1)")
    add_usual_options(parser)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
