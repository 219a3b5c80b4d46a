"""How `--reload` notices that a Python file has changed."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from ferryman.cli.worker.plan import Plan
from ferryman.cli.worker.status_board import StatusBoard
from ferryman.cli.worker.supervisor import PythonFiles, Supervisor
from ferryman.cli.worker.vitals import Vitals
from tests.support.server import reachable_folder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pytest


def test_changed_files_are_noticed_below_the_folder_but_not_those_of_others(tmp_path: Path) -> None:
    for folder in ("shop", ".venv", "env", "node_modules"):
        (tmp_path / folder).mkdir()
    (tmp_path / "env" / "pyvenv.cfg").touch()
    (tmp_path / "shop" / "a.py").touch()
    files = PythonFiles(tmp_path)

    for folder in (".venv", "env", "node_modules"):
        (tmp_path / folder / "a.py").touch()
    (tmp_path / "shop" / "a.txt").touch()
    assert files.changed() is None
    os.utime(tmp_path / "shop" / "a.py", (1, 1))
    assert files.changed() == tmp_path / "shop" / "a.py"
    (tmp_path / "shop" / "a.py").write_text("half of it is written, and the rest within the same tick of the clock")
    os.utime(tmp_path / "shop" / "a.py", (1, 1))
    assert files.changed() == tmp_path / "shop" / "a.py"
    (tmp_path / "b.py").touch()
    assert files.changed() == tmp_path / "b.py"
    (tmp_path / "b.py").unlink()
    assert files.changed() == tmp_path / "b.py"
    assert files.changed() is None


def test_a_folder_that_may_not_be_entered_does_not_keep_changes_from_being_noticed() -> None:
    with reachable_folder() as folder:
        folder.chmod(0o755)
        (folder / "pgdata").mkdir(mode=0)
        with _without_privileges():
            files = PythonFiles(folder)
        (folder / "a.py").touch()
        with _without_privileges():
            assert files.changed() == folder / "a.py"


@contextlib.contextmanager
def _without_privileges() -> Iterator[None]:
    """Give up the rights of root, who may enter every folder."""
    before = os.geteuid()
    os.seteuid(before or 65534)
    try:
        yield
    finally:
        os.seteuid(before)


async def test_a_look_for_changed_files_that_fails_is_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()

    await Supervisor(Plan(target="tasks"), StatusBoard([Vitals()], None, patience=30), reload=True)._watch_files()

    assert [record.event for record in caplog.records] == ["reload_ended"]
