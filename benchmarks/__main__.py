"""Measures Ferryman and its peers side by side: `python -m benchmarks`.

All run on one private PostgreSQL with production-like settings, in turns, several times; the tables show medians, their
spread, and ratios. Compare within a table only: absolute figures are this machine's, at this hour.
"""

from __future__ import annotations

import argparse
import os
import platform
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from benchmarks import report
from benchmarks.bench import Bench
from benchmarks.parts import PARTS
from benchmarks.products import PRODUCTS
from benchmarks.results import Part
from benchmarks.server import private_server
from benchmarks.toolchains import CACHE, Unavailable
from benchmarks.versions import versions

if TYPE_CHECKING:
    from benchmarks.products import Product

JOBS, QUICK_JOBS = 200_000, 3_000
ROUNDS, QUICK_ROUNDS = 3, 1
QUICK_PRODUCTS = ("raw", "ferryman")


def main() -> None:
    options = _options()
    console = Console()
    console.width = max(console.width, 170)
    folder = options.results or (CACHE / ("results-quick" if options.quick else "results"))
    if not options.report_only:
        _measure(options, folder, console)
    parts = [part for name in PARTS if name in options.only and (part := Part.load(folder, name))]
    for part in parts:
        report.show(part, console)
    report.show_promises(parts, console)
    console.print(f"measured in {sum(part.about.get('minutes', 0) for part in parts):.0f} minutes")
    if options.docs:
        everything = [part for name in PARTS if (part := Part.load(folder, name))]
        console.print(f"wrote {report.write(everything, options.docs)}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=list(PARTS), default=list(PARTS), help="parts to measure")
    parser.add_argument("--products", nargs="+", choices=list(PRODUCTS), help="contenders (--quick: raw and ferryman)")
    parser.add_argument("--jobs", type=int, help=f"jobs to drain (default: {JOBS:,}; --quick: {QUICK_JOBS:,})")
    parser.add_argument("--rounds", type=int, help=f"(default: {ROUNDS}; --quick: {QUICK_ROUNDS})")
    parser.add_argument(
        "--quick", action="store_true", help="seconds instead of half an hour: small, once, nothing to install"
    )
    parser.add_argument("--docs", type=Path, help="write the report, with plots, to this file: docs/benchmarks.md")
    parser.add_argument("--results", type=Path, help="folder that keeps the figures (default: below .cache/bench)")
    parser.add_argument("--report-only", action="store_true", help="measure nothing; show what was measured last")
    return parser.parse_args()


def _measure(options: argparse.Namespace, folder: Path, console: Console) -> None:
    chosen = options.products or (QUICK_PRODUCTS if options.quick else PRODUCTS)
    products, missing = _available([PRODUCTS[name] for name in chosen], console)
    rounds = options.rounds or (QUICK_ROUNDS if options.quick else ROUNDS)
    with private_server() as server:
        bench = Bench(
            server=server,
            products=products,
            rounds=rounds,
            jobs=options.jobs or (QUICK_JOBS if options.quick else JOBS),
            quick=options.quick,
            console=console,
            results=folder,
            about={
                "date": f"{datetime.now(UTC):%Y-%m-%d}",
                "rounds": rounds,
                "postgres": server.version,
                "python": platform.python_version(),
                "processors": os.cpu_count(),
                "versions": versions(products),
            },
        )
        for name in options.only:
            start = time.monotonic()
            part = PARTS[name](bench)
            part.skipped = missing | part.skipped
            part.about["minutes"] = (time.monotonic() - start) / 60
            console.print(f"{name}: {part.about['minutes']:.1f} minutes")
            bench.keep(part)


def _available(products: list[Product], console: Console) -> tuple[list[Product], dict[str, str]]:
    """Return the products that can run here, and for each other one the reason."""
    found, missing = [], {}
    for product in products:
        try:
            _ = product.command
            found.append(product)
        except Unavailable as reason:
            missing[product.name] = str(reason)
            console.print(f"skipped: {product.name}: {reason}", style="yellow", markup=False)
    return found, missing


if __name__ == "__main__":
    main()
