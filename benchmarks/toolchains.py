"""Installs the products to compare, each in an environment of its own below .cache/bench, from its own registry.

What takes minutes to compile, the Rust crate, is kept for all checkouts of a user. Nothing here is part of the
repository. A toolchain that is missing leaves its contender out, with a line that says so.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).parents[1]
CACHE = ROOT / ".cache" / "bench"
USER_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ferryman"
DRIVERS = Path(__file__).parent / "drivers"
PATIENCE_SECONDS = 1800


class Unavailable(Exception):  # noqa: N818 - a reason to go on without
    """This product cannot run here; the message says why."""


def python_environment(name: str, requirements: Sequence[str], *, at_least: tuple[int, int] = (3, 11)) -> Path:
    """Return the interpreter of an environment with these requirements; make the environment if needed."""
    folder = CACHE / "python" / f"{name}-{_digest(*requirements)}"
    python = folder / "bin" / "python"
    if not (folder / "complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        _run([_interpreter(at_least), "-m", "venv", str(folder)])
        _run([str(python), "-m", "pip", "install", "--quiet", *requirements])
        (folder / "complete").touch()
    return python


def rust_program(name: str = "rust-driver") -> Path:
    """Compile one of our programs for the Rust crate, at low priority and in one process at a time; return its path."""
    if shutil.which("cargo") is None:
        raise Unavailable("cargo is not installed")
    source, target = DRIVERS / "rust", USER_CACHE / "cargo"
    files = [source / "Cargo.toml", source / "Cargo.lock", *sorted(source.rglob("*.rs"))]
    folder = USER_CACHE / f"rust-{_digest(*(path.read_text() for path in files))}"
    if not (folder / name).exists():
        target.mkdir(parents=True, exist_ok=True)
        build = ["cargo", "build", "--release", "--locked", "--quiet", "--jobs", "1", "--bin", name]
        _run([*(["nice"] if shutil.which("nice") else []), *build, "--target-dir", str(target)], source)
        folder.mkdir(exist_ok=True)
        shutil.copy(target / "release" / name, folder)
    return folder / name


def go_program() -> Path:
    """Compile our program for River, and return its path."""
    return _compiled("go", "go", [["go", "mod", "tidy"], ["go", "build", "-o", "driver", "."]], "driver")


def node_packages() -> tuple[Path, Path]:
    """Return the path of Node and the folder of its packages, which the tests use too."""
    try:
        from tests.support import nodes, npm  # noqa: PLC0415 - needs the wheel that brings Node

        packages = nodes.packages()
    except Exception as problem:  # noqa: BLE001 - whatever it was, the others can still be measured
        raise Unavailable(f"Node or graphile-worker could not be installed: {_short(str(problem))}") from None
    return Path(npm.NODE), Path(packages)


def _compiled(name: str, tool: str, commands: list[list[str]], result: str) -> Path:
    if shutil.which(tool) is None:
        raise Unavailable(f"{tool} is not installed")
    source = DRIVERS / name
    files = sorted(path for path in source.rglob("*") if path.is_file())
    folder = CACHE / f"{name}-{_digest(*(path.read_text() for path in files))}"
    program = folder / result
    if not program.exists():
        shutil.copytree(source, folder, dirs_exist_ok=True)
        for command in commands:
            _run(command, folder)
    return program


def _interpreter(at_least: tuple[int, int]) -> str:
    if sys.version_info >= at_least:
        return sys.executable
    for minor in range(at_least[1], at_least[1] + 4):
        for name in (f"python3.{minor}", *_pyenv(minor)):
            if (found := shutil.which(name)) and _works(found):
                return found
    raise Unavailable(f"it needs Python {'.'.join(map(str, at_least))} or newer, and there is none here")


def _pyenv(minor: int) -> list[str]:
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    return [str(path / "bin" / "python") for path in sorted(versions.glob(f"3.{minor}.*"))]


def _works(python: str) -> bool:
    return subprocess.run([python, "-c", "import venv"], capture_output=True, check=False).returncode == 0


def _run(command: list[str], folder: Path | None = None) -> None:
    CACHE.mkdir(parents=True, exist_ok=True)
    try:
        done = subprocess.run(
            command, cwd=folder or CACHE, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise Unavailable(f"{Path(command[0]).name} did not work: {_short(str(problem))}") from None
    if done.returncode:
        raise Unavailable(f"{Path(command[0]).name} {command[1]} failed: {_short(done.stderr)}")


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


def _short(text: str) -> str:
    return text.strip()[-300:].replace("\n", " ")
