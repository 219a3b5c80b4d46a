"""What all parts of the benchmark share: the server, the products, and how much to measure."""

from __future__ import annotations

import random
import re
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from benchmarks.programs import DriverError, Program
from benchmarks.toolchains import Unavailable
from benchmarks.watching import watching

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from rich.console import Console

    from benchmarks.products import Product
    from benchmarks.results import Part
    from benchmarks.server import Server
    from benchmarks.watching import Watch


BYSTANDERS_ROUNDS = 2


@dataclass(slots=True)
class Bench:
    """The server, the products to compare, and how much to measure."""

    server: Server
    products: list[Product]
    rounds: int
    jobs: int
    quick: bool
    console: Console
    results: Path | None = None
    about: dict[str, Any] = field(default_factory=dict)
    _databases: dict[str, str] = field(default_factory=dict)

    def url(self, product: Product) -> str:
        """Make a database for one product alone, with its schema, and return the address."""
        if product.name not in self._databases:
            url = self.server.fresh_database("bench_" + re.sub(r"\W+", "_", product.name))
            with Program(product, "prepare", url, product.modes["default"]) as preparing:
                preparing.wait()
            self._databases[product.name] = url
        return self._databases[product.name]

    @contextmanager
    def watching(self, product: Product) -> Iterator[Watch]:
        with watching(self.url(product), product.tables) as watch:
            yield watch

    @contextmanager
    def adding(self, product: Product) -> Iterator[Program]:
        with Program(product, "add", self.url(product), {}) as adding:
            yield adding.ready()

    def working(self, product: Product, mode: str, **changed: Any) -> Program:
        """Start a worker that has loaded everything, and waits to be told to start."""
        return Program(product, "work", self.url(product), product.modes[mode] | changed)

    def interleaved(
        self, part: Part, products: Sequence[Product], *, what: str = "", rounds: int | None = None
    ) -> Iterator[Product]:
        """Yield each product once per round, in a new order each time, so that a slow moment hits all alike.

        Bystanders, of whom nothing is promised, sit the later rounds out.
        """
        order = random.Random(part.name)
        rounds = min(self.rounds, rounds or self.rounds)
        for number in range(rounds):
            present = [one for one in products if number < BYSTANDERS_ROUNDS or not one.is_bystander]
            for product in order.sample(present, len(present)):
                if product.name not in part.skipped:
                    title = ": ".join(filter(None, (f"{part.name} {number + 1}/{rounds}", what, product.name)))
                    self.console.print(f"  {datetime.now(UTC):%H:%M:%S} {title}", style="dim", markup=False)
                    yield product
                    self.keep(part)

    def keep(self, part: Part) -> None:
        """Save what was measured so far, so that a failure in the last minute does not lose an hour."""
        part.about = self.about | part.about
        if self.results is not None:
            part.save(self.results)

    @contextmanager
    def leaving_out(self, part: Part, product: Product) -> Iterator[None]:
        """If the product cannot be measured, say so and continue with the others."""
        try:
            yield
        except (Unavailable, DriverError, TimeoutError) as problem:
            # The whole story is for the terminal: a report shows no paths of the machine that wrote it.
            self.console.print(f"  left out: {product.name}: {problem}", style="yellow", markup=False)
            part.skipped[product.name] = str(problem).strip().splitlines()[-1][-200:]
