"""The process beside the server: small, independent and quiet."""

import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from ferryman.embedded import programs
from ferryman.embedded.programs import LogFile
from tests.support.embedded_processes import (
    USER,
    copy_package,
    running_postmaster,
    stopped_cleanly,
    until_quiet,
    watchdogs,
)
from tests.support.waiting import until_blocking

SIGNALS_AT_EACH_LINE = """
import os, signal, sys

def trace(frame, event, _):
    if os.path.basename(frame.f_code.co_filename) in ("watchdog.py", "threading.py", "queue.py"):
        if callable(signal.getsignal(signal.SIGCHLD)):
            os.kill(os.getpid(), signal.SIGCHLD)
        return trace

sys.settrace(trace)
"""
"""Signals for the loop of the watchdog and for its handlers, wherever a lock may be held."""


def test_it_does_not_need_the_rest_of_the_package(join, spare_folder, open_folder):
    """It runs isolated (-I), so a package that refuses to be imported there is one that it never imported."""
    library = copy_package(open_folder, top="import sys\nassert not sys.flags.isolated\n")

    user = join(spare_folder, env=os.environ | {"PYTHONPATH": str(library)}, script=shutil.copy(USER, library))
    user.joined()
    [watchdog] = watchdogs(spare_folder)
    assert str(library) in Path(f"/proc/{watchdog}/cmdline").read_text()
    user.leave()


def test_only_the_standard_library_is_imported(open_folder):
    library = copy_package(open_folder)

    without, with_ours = modules_after("", library), modules_after("import ferryman.embedded", library)

    assert with_ours - without - set(sys.stdlib_module_names) == {"ferryman"}


def modules_after(statement: str, library: Path) -> set[str]:
    code = f"{statement}\nimport sys\nprint(*sys.modules)"
    shown = subprocess.check_output([sys.executable, "-S", "-c", code], env={"PYTHONPATH": str(library)}, text=True)
    return {name.partition(".")[0] for name in shown.split()}


def test_it_stands_in_nobodys_way(join, folder):
    """Its own session, no folder kept busy, no file of its starter kept open."""
    user = join()
    user.joined()
    for pid in (*watchdogs(folder), running_postmaster(folder)):
        assert os.getsid(pid) != os.getsid(user.pid)
    [watchdog] = watchdogs(folder)
    assert Path(f"/proc/{watchdog}/cwd").readlink() == Path("/")
    # Now and then it has one more open for a moment.
    usual = {"null", "server.log", "watched.lock", "leases.lock"}
    until_blocking(lambda: files_of(watchdog) == usual, "only the usual files are open")


def test_a_signal_at_any_moment_does_not_stop_it(join, spare_folder, open_folder):
    """Also one that comes while the watchdog waits, or while the handler of another is at work."""
    library = copy_package(open_folder)
    detached = library / "ferryman" / "embedded" / "detached.py"
    detached.write_text(SIGNALS_AT_EACH_LINE + detached.read_text())

    user = join(spare_folder, env=os.environ | {"PYTHONPATH": str(library)}, script=shutil.copy(USER, library))
    user.joined()
    [watchdog] = watchdogs(spare_folder)
    os.kill(watchdog, signal.SIGCHLD)  # each line of its handler meets another
    user.leave()

    until_blocking(lambda: not watchdogs(spare_folder), "it stops the server that nobody uses, and ends")


def test_it_looks_again_when_the_folder_cannot_be_looked_at(join, spare_folder):
    user = join(spare_folder)
    user.joined()
    [watchdog] = watchdogs(spare_folder)
    aside = spare_folder.with_name("aside")
    spare_folder.rename(aside)
    spare_folder.touch()  # not "there is no such folder", which would be the end of the server
    looks = waits_of(watchdog)
    until_blocking(lambda: waits_of(watchdog) > looks + 2, "it has looked at the file in the place of the folder")
    spare_folder.unlink()
    aside.rename(spare_folder)

    user.leave()
    until_quiet(spare_folder)
    assert stopped_cleanly(spare_folder)


def waits_of(pid: int) -> int:
    """How often a process has waited for something."""
    [line] = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("voluntary")]
    return int(line.split()[1])


def files_of(pid: int) -> set[str]:
    names = set()
    for path in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed since
            names.add(path.readlink().name)
    return names


def test_a_log_that_grew_too_large_is_put_aside(tmp_path, monkeypatch):
    monkeypatch.setattr(programs, "LARGEST_LOG_BYTES", 10)
    log = LogFile(tmp_path / "server.log")
    with log.append() as file:
        file.write(b"much has happened")
        file.flush()

        log.rotate()
        file.write(b"and more")

    assert (tmp_path / "server.log.1").read_text() == "much has happened"
    assert (tmp_path / "server.log").read_text() == "and more"


def test_a_small_log_stays(tmp_path):
    log = LogFile(tmp_path / "server.log")
    with log.append() as file:
        file.write(b"little")
    log.rotate()
    assert log.tail() == "little"
    assert not (tmp_path / "server.log.1").exists()


def test_the_tail_of_a_log_that_was_never_written_is_empty(tmp_path):
    assert LogFile(tmp_path / "server.log").tail() == "(nothing)"
