"""A bad day for a run of tests: `python -m tests.support.disturbing [options] -- pytest -n 6`.

What is unsteady shows itself: a race in the product, or a test that hopes. Processes of the run, those of PostgreSQL
among them, are stopped for a moment again and again; loops keep the cores busy; the disk takes its time.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

SLOW_DISK = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <unistd.h>
int fsync(int file) { usleep(DELAY); return ((int (*)(int))dlsym(RTLD_NEXT, "fsync"))(file); }
int fdatasync(int file) { usleep(DELAY); return ((int (*)(int))dlsym(RTLD_NEXT, "fdatasync"))(file); }
"""
EVERYWHERE = 'touch /etc/ld.so.preload && mount --bind "$0" /etc/ld.so.preload && exec "$@"'
"""Servers have a bare environment, so LD_PRELOAD does not reach them. This one file does; only the run sees it."""
MARK = "FERRYMAN_DISTURBED"
"""In the environment of the processes of a run: parents do not tell, since many detach themselves."""


def main() -> int:
    parser = argparse.ArgumentParser(description="Disturb a run of tests.")
    parser.add_argument("--busy", type=int, default=0, metavar="N", help="so many loops that keep a core busy")
    parser.add_argument(
        "--pauses", type=float, default=0.0, metavar="SECONDS", help="stop a process for so long, always"
    )
    parser.add_argument("--slow-disk", type=float, default=0.0, metavar="SECONDS", help="fsync takes so much longer")
    parser.add_argument("--seed", type=int, default=1, help="which processes are stopped")
    parser.add_argument("command", nargs="+")
    given = parser.parse_args()
    environment = {**os.environ, MARK: str(os.getpid())}
    with ExitStack() as stack:
        command = given.command
        if given.slow_disk:
            library = stack.enter_context(slow_disk(given.slow_disk))
            command = ["unshare", "--mount", "sh", "-c", EVERYWHERE, library, *command]
        for _ in range(given.busy):
            stack.enter_context(busy_loop())
        run = subprocess.Popen(command, env=environment)
        if given.pauses:
            stack.enter_context(pauses(given.pauses, random.Random(given.seed)))
        return run.wait()


@contextmanager
def busy_loop() -> Iterator[None]:
    loop = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    yield
    loop.kill()
    loop.wait()


@contextmanager
def slow_disk(seconds: float) -> Iterator[str]:
    """A file that names a library to be loaded first; compiled on the spot. Needs root, and a compiler."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)  # PostgreSQL's account reads it too
        library, microseconds = f"{folder}/slow_disk.so", int(seconds * 1_000_000)
        command = ["cc", "-shared", "-fPIC", f"-DDELAY={microseconds}", "-x", "c", "-", "-o", library, "-ldl"]
        subprocess.run(command, input=SLOW_DISK.encode(), check=True)
        preload = Path(folder) / "preload"
        preload.write_text(library + "\n")
        preload.chmod(0o644)
        yield str(preload)


@contextmanager
def pauses(seconds: float, chance: random.Random) -> Iterator[None]:
    """Stop one process of the run after the other, each for so long."""
    over = threading.Event()

    def stop_and_go() -> None:
        while not over.is_set():
            if running := [pid for pid in run_processes() if state_of(pid) in {"R", "S", "D"}]:
                with paused(chance.choice(sorted(running))):
                    over.wait(seconds)
            over.wait(seconds * chance.random())

    thread = threading.Thread(target=stop_and_go)
    thread.start()
    yield
    over.set()
    thread.join()


@contextmanager
def paused(pid: int) -> Iterator[None]:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGSTOP)
    yield
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)


def run_processes() -> Iterator[int]:
    """The processes of this run, wherever they come from; and PostgreSQL's, which are known by where they work."""
    mark = f"{MARK}={os.getpid()}\0".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            is_server = "/ferryman-test" in str((folder / "cwd").readlink())
            if is_server or mark in (folder / "environ").read_bytes() + b"\0":
                yield int(folder.name)


def state_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


if __name__ == "__main__":
    sys.exit(main())
