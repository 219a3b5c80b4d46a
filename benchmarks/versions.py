"""Finds out exactly what was measured: the versions of each product, its dependencies and its runtime."""

from __future__ import annotations

import json
import re
import subprocess
from typing import TYPE_CHECKING

from benchmarks.products import NODE, RIVER, RUST
from benchmarks.toolchains import DRIVERS, node_packages

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.products import Product

ASK_PYTHON = """
import sys
from importlib.metadata import PackageNotFoundError, version
from platform import python_version
for name in sys.argv[1:]:
    try:
        print(name, version(name), end=", ")
    except PackageNotFoundError:
        pass
print("Python", python_version())
"""


def versions(products: Sequence[Product]) -> dict[str, str]:
    """Return the versions by the names of the products."""
    return {product.name: _version(product) for product in products}


def _version(product: Product) -> str:
    if product is NODE:
        node, packages = node_packages()
        worker = json.loads((packages / "graphile-worker-0.18/package.json").read_text())["version"]
        return f"graphile-worker {worker}, Node {_said([str(node), '--version']).removeprefix('v')}"
    if product is RUST:
        [crate] = re.findall(r'^graphile_worker = "=(.+)"', (DRIVERS / "rust/Cargo.toml").read_text(), re.MULTILINE)
        return f"graphile_worker {crate}, {' '.join(_said(['rustc', '--version']).split()[:2])}"
    if product is RIVER:
        [module] = re.findall(r"riverqueue/river v(.+)", (DRIVERS / "go/go.mod").read_text())
        return f"river {module}, {_said(['go', 'version']).split()[2].replace('go', 'Go ')}"
    return _said([product.command[0], "-c", ASK_PYTHON, *product.packages])


def _said(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return done.stdout.strip()
