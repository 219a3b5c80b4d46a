"""Programs that tests start: a warm one behaves as one in an interpreter of its own."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.processes import Program, is_running
from tests.support.waiting import until
from tests.support.warm import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.program

TELLING = "tests.support.programs.telling"


@pytest.fixture(params=[False, True], ids=["warm", "fresh"])
def start(request: pytest.FixtureRequest) -> Iterator[Callable[..., Program]]:
    started: list[Program] = []

    def call(*arguments: str, **options: Any) -> Program:
        started.append(Program(TELLING, *arguments, talks=True, fresh=request.param, **options))
        return started[-1]

    yield call
    for program in started:
        program.end()


async def found_by(program: Program) -> dict[str, Any]:
    await until(lambda: program.lines, "it tells what it finds")
    found: dict[str, Any] = json.loads(program.lines[0])
    return found


async def test_a_program_finds_its_words_its_variables_and_nothing_of_others(
    start: Callable[..., Program], tmp_path: Path
) -> None:
    start("another")
    program = start("one", "two", environment={"TELLING": "yes", "PYTHONPATH": str(ROOT)}, folder=tmp_path)

    found = await found_by(program)

    assert found == {
        "name": "__main__",
        "words": ["one", "two"],
        "folder": str(tmp_path),
        "variable": "yes",
        "files": [0, 1, 2],
        "threads": 1,
        "blocked": [],
        "term": True,
        "int": True,
    }


@pytest.mark.parametrize(("order", "code", "says"), [("exit 7", 7, True), ("raise", 1, True), ("die 9", -9, False)])
async def test_a_program_ends_as_it_likes_and_its_exit_code_is_known(
    start: Callable[..., Program], order: str, code: int, says: bool
) -> None:
    program = start()
    await found_by(program)

    program.tell(order)

    assert await program.died() == code
    assert program.wait() == code
    assert ("at exit" in program.lines) is says


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_program_ends_by_signals(start: Callable[..., Program], number: signal.Signals) -> None:
    program = start()
    await found_by(program)

    program.signal(number)

    assert await program.died() == -number


async def test_a_program_can_be_frozen_thawed_and_killed(start: Callable[..., Program]) -> None:
    program = start()
    await found_by(program)
    program.freeze()
    await program.froze()
    assert not program.has_ended

    program.thaw()
    await until(lambda: is_running(program.pid), "it runs")
    program.kill()

    assert program.has_ended
    assert not is_running(program.pid)


async def test_the_fork_server_ends_what_is_left_when_nobody_can_order_any_more() -> None:
    """As when pytest is killed."""
    keeper = Program("tests.support.programs.keeping", fresh=True, talks=True)
    try:
        await until(lambda: keeper.lines, "it has started a program")
        kept = int(keeper.lines[0])
        assert is_running(kept)

        keeper.kill()

        await until(lambda: not is_running(kept), "the program is gone")
    finally:
        keeper.end()
