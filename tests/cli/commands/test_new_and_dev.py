"""`ferryman new` and `ferryman dev`: from an empty folder to a job that runs."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.support.commands import EXECUTABLE, STARTED, RunningCommand

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.commands import Ran


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_an_empty_folder_becomes_a_running_application(
    run: Callable[..., Ran], server_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = server_folder / "project"
    here.mkdir()
    here.chmod(0o711)
    monkeypatch.chdir(here)
    written = run("new")
    started = RunningCommand(("dev",), here, {"DATABASE_URL": "postgresql://me:hunter2@production/app"})
    try:
        line = started.wait_for("^export DATABASE_URL=")[0]
        started.wait_for(STARTED)
        script = f"""{line}\nexec "$0" jobs add greet '{{"name": "Ann"}}'"""
        subprocess.run(["sh", "-c", script, EXECUTABLE], env=os.environ, capture_output=True, check=True)
        started.wait_for("hello, Ann$")
        started.wait_for(r"INFO    job 1 \(greet\) completed in \S+ ms$")
        (here / "tasks.py").write_text((here / "tasks.py").read_text().replace("hello", "welcome"))
        started.wait_for(STARTED, times=2)

        assert started.stop(signal.SIGINT) == 0
    finally:
        started.clear_away()
    assert written.out.startswith("Wrote tasks.py.")
    assert "DATABASE_URL names app at production:5432, which this worker does not use." in started.text
    assert "hunter2" not in started.text
    assert re.match(r"Creating a PostgreSQL database in \S+/project/\.ferryman/postgres\.", started.text)
    assert (here / ".ferryman" / "postgres" / "data").is_dir()
    assert (here / ".ferryman" / ".gitignore").read_text() == "*\n"
    assert "Traceback" not in started.text


def test_dev_uses_a_database_that_it_is_given_and_starts_none(
    run: Callable[..., Ran], here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "tasks.py").write_text("")
    monkeypatch.setattr("ferryman.cli.commands.dev.EmbeddedPostgres", None)
    asked: list[dict[str, object]] = []
    monkeypatch.setattr("ferryman.cli.commands.dev.run_workers", lambda **given: asked.append(given))

    assert run("dev", "--database-url", "postgresql://mine", "--folder", "x").code == 2
    assert run("dev", "--database-url", "postgresql://mine").code == 0

    [given] = asked
    assert (given["target"], given["database_url"]) == ("tasks", "postgresql://mine")


def test_dev_without_a_module_says_what_it_looked_for(run: Callable[..., Ran], here: Path) -> None:
    ran = run("dev")

    assert ran.code == 1
    assert f"there is no tasks.py or app.py in {here}." in ran.err


@pytest.mark.parametrize("command", [("dev",), ("worker", "--reload")])
def test_a_module_that_is_not_there_ends_the_command_instead_of_waiting_for_a_change(
    run: Callable[..., Ran], here: Path, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "tasks.py").write_text("")
    for place in ("ferryman.cli.commands.dev.EmbeddedPostgres", "ferryman.cli.worker.worker_command.Supervisor"):
        monkeypatch.setattr(place, None)  # neither may be started

    ran = run(*command, "taks")

    assert ran.code == 1
    assert "there is no module 'taks'" in ran.err
    assert "Did you mean 'tasks'?" in ran.err


def test_new_never_touches_a_file_that_is_there(run: Callable[..., Ran], here: Path) -> None:
    (here / "tasks.py").write_text("mine")

    ran = run("new", "--json")

    assert ran.code == 1
    assert ran.error["message"] == "'tasks.py' already exists and was not changed. Choose another name."
    assert (here / "tasks.py").read_text() == "mine"


@pytest.mark.parametrize("name", ["tasks", "my-tasks.py", "1.py"])
def test_new_refuses_a_name_that_python_cannot_import(run: Callable[..., Ran], here: Path, name: str) -> None:
    ran = run("new", name)

    assert ran.code == 1
    assert "Choose a name such as tasks.py" in ran.err
    assert not [*here.iterdir()]


def test_new_tells_programs_what_it_wrote(run: Callable[..., Ran], here: Path) -> None:
    assert run("new", "shop.py", "--json").json == {"file": "shop.py", "module": "shop"}
    assert "`ferryman worker shop`" in (here / "shop.py").read_text()


def test_new_in_a_folder_with_a_space_says_how_to_get_there(run: Callable[..., Ran], here: Path) -> None:
    (here / "my dir").mkdir()

    assert "cd 'my dir'\n" in run("new", "my dir/tasks.py").out
