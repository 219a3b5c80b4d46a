"""CONTRIBUTING.md names the folders and commands that there are, and the hooks before a commit fetch nothing."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_the_table_of_folders_has_every_package_and_no_other() -> None:
    source = ROOT / "src" / "ferryman"
    packages = {path.parent.name for path in source.glob("*/__init__.py")}
    assert set(re.findall(r"^\| `src/ferryman/(\w+)/` \|", PAGE, re.MULTILINE)) == packages


def test_every_make_command_on_the_page_exists() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    commands = set(re.findall(r"\bmake ([a-z-]+)", "".join(re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL))))
    assert len(commands) > 5
    assert {each for each in commands if not re.search(rf"^{each}:", makefile, re.MULTILINE)} == set()


def test_the_hooks_before_a_commit_are_local_and_run_the_ruff_of_the_environment() -> None:
    config = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    assert set(re.findall(r"repo: (.+)", config)) == {"local"}
    assert {entry.split()[0] for entry in re.findall(r"entry: (.+)", config)} == {".venv/bin/ruff"}
