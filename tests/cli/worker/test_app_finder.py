"""MODULE[:APP] on the command line: which application is found, and the error if none is."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from ferryman import App
from ferryman.cli.worker.app_finder import AppNotFoundError, check_module, find_app

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty current directory, whose modules are removed from `sys.modules` afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    before = {*sys.modules}
    yield tmp_path
    for name in {*sys.modules} - before:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("app = App()", "sample"),
        ("jobs = App()", "sample"),
        ("jobs = also = App()", "sample"),
        ("app, other = App(), App()", "sample"),
        ("first, second = App(), App()", "sample:second"),
        ("class Box: app = App()", "sample:Box.app"),
    ],
)
def test_the_app_is_the_one_that_is_named_or_called_app_or_alone(here: Path, text: str, target: str) -> None:
    (here / "sample.py").write_text(f"from ferryman import App\n{text}\n")

    assert isinstance(find_app(target), App)


def test_packages_are_found_too(here: Path) -> None:
    (here / "shop").mkdir()
    (here / "shop" / "jobs.py").write_text("from ferryman import App\napp = App()\n")

    assert isinstance(find_app("shop.jobs"), App)


@pytest.mark.parametrize(
    ("target", "told"),
    [
        ("smaple", "there is no module 'smaple' in {here} or among the installed packages. Did you mean 'sample'?"),
        ("jobs", "Did you mean 'shop.jobs'?"),
        ("sample.app", "Did you mean 'sample:app'?"),
        ("shop.nothing", "there is no module 'shop.nothing'"),
        ("zzz", "Modules here: absent, broken, empty, odd, sample, shop.jobs, two."),
        ("sample.py", "'sample.py' is a file name. Give the module instead: 'sample'."),
        ("shop/jobs.py", "Give the module instead: 'shop.jobs'."),
        ("", "'' is not the name of a module."),
        ("a b", "'a b' is not the name of a module. Give MODULE or MODULE:APP"),
        ("sample:nope", "'sample' has no 'nope'. It has: sample:app."),
        ("sample:App", "sample:App is of type type, not an App. It has: sample:app."),
        ("empty", "It has no App: add a line such as `app = App()`."),
        ("two", "cannot tell which App of 'two' to run. It has: two:first, two:second."),
        ("broken", "importing 'broken' failed at broken.py:2: ZeroDivisionError: division by zero"),
        ("absent", "importing 'absent' failed at absent.py:1: ModuleNotFoundError: No module named 'not_installed'"),
        ("odd", "importing 'odd' failed at odd.py:1: SyntaxError"),
    ],
)
def test_what_cannot_be_found_is_explained(here: Path, target: str, told: str) -> None:
    (here / "sample.py").write_text("from ferryman import App\napp = App()\n")
    (here / "empty.py").write_text("")
    (here / "two.py").write_text("from ferryman import App\nfirst, second = App(), App()\n")
    (here / "broken.py").write_text("# the next line fails\n1 / 0\n")
    (here / "absent.py").write_text("import not_installed\n")
    (here / "odd.py").write_text("def broken(\n")
    (here / "shop").mkdir()
    (here / "shop" / "jobs.py").write_text("")

    with pytest.raises(AppNotFoundError) as caught:
        find_app(target)

    assert told.format(here=here) in str(caught.value)


def test_an_empty_folder_leads_to_the_command_that_fills_it(here: Path) -> None:
    with pytest.raises(AppNotFoundError, match="`ferryman new` writes one"):
        find_app("tasks")


@pytest.mark.parametrize("target", ["smaple", "shop.nothing", "sample.app", "sample.py"])
def test_a_module_that_is_not_there_is_known_without_importing_anything(here: Path, target: str) -> None:
    (here / "sample.py").write_text("1 / 0")
    (here / "shop").mkdir()
    (here / "shop" / "__init__.py").write_text("1 / 0")
    (here / "shop" / "jobs.py").write_text("1 / 0")

    for there in ("sample:app", "shop", "shop.jobs"):
        check_module(there)
    with pytest.raises(AppNotFoundError):
        check_module(target)
