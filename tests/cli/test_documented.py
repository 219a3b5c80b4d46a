"""Every console example of docs/cli.md, run from top to bottom on an empty database."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pytest

    from tests.support.commands import Ran

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def _examples() -> Iterator[tuple[str, str]]:
    """Yield each command, with its output according to the page."""
    for block in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        for example in re.split(r"^\$ ferryman ", block, flags=re.MULTILINE)[1:]:
            command, _, output = example.partition("\n")
            yield command, output


def _timeless(output: str) -> str:
    """Return the output without what differs between runs: times, the server's version, and spaces at line ends."""
    without_times = re.sub(r"20[23]\d-\d\d-\d\dT[\d:]+Z", "TIME", output)
    without_versions = re.sub(r"(server version +)[\d.]+", r"\1N", without_times)
    return re.sub(r" +$", "", without_versions, flags=re.MULTILINE)


def test_the_page_prints_what_the_command_prints(
    run: Callable[..., Ran], empty_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", empty_database)
    examples = list(_examples())

    for command, output in examples:
        ran = run(*shlex.split(command))
        assert _timeless(output) == _timeless(ran.out or ran.err), command

    assert len(examples) > 10
