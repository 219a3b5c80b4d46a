"""A child process, as its worker sees it: started, given orders, and ended."""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import socket
import subprocess
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

from ferryman.script_guard import refuse_while_importing
from ferryman.worker.running.children.channel import receive_frame, send_frame
from ferryman.worker.running.children.child_signals import held_back

if TYPE_CHECKING:
    from ferryman.worker.running.children.orders import ChildOrder

# The path comes first, so that the child finds Ferryman where the worker found it.
_PROGRAM = (
    "import sys; sys.path[:] = sys.argv[3:]; "
    "from ferryman.worker.running.children.serving import main; main(int(sys.argv[1]), int(sys.argv[2]))"
)


class Child:
    """A process that runs one order at a time.

    One thread per child waits for the process to end, since no portable call lets an event loop do that. When the
    process ends, the channel is shut down too, so that a reader learns of it even if a process that the child had
    forked keeps the other side open.
    """

    def __init__(self, process: subprocess.Popen[bytes], channel: socket.socket, preparation: dict[str, Any]) -> None:
        self._process = process
        self._channel = channel
        self._preparation: dict[str, Any] | None = preparation
        self._loop = asyncio.get_running_loop()
        self._is_channel_free = asyncio.Event()
        self._is_channel_free.set()
        self._ending: asyncio.Task[int] | None = None
        self.orders_done = 0
        self.exited: asyncio.Future[int] = self._loop.create_future()
        threading.Thread(target=self._wait, name=f"ferryman-child-{process.pid}", daemon=True).start()

    def __repr__(self) -> str:
        return f"<Child {self.pid}>"

    @classmethod
    def start(cls) -> Self:
        """Start a process. Raises `OSError` or `RuntimeError` when the system has no process, file or thread left."""
        refuse_while_importing()
        preparation = _describe_this_process()
        ours, theirs = socket.socketpair()
        try:
            ours.setblocking(False)
            with theirs:
                process = _start_process(theirs, preparation["sys_path"])
            return cls._watched(process, ours, preparation)
        except BaseException:
            ours.close()
            raise

    @classmethod
    def _watched(cls, process: subprocess.Popen[bytes], channel: socket.socket, preparation: dict[str, Any]) -> Self:
        try:
            return cls(process, channel, preparation)
        except BaseException:
            process.kill()
            process.wait()
            raise

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    @property
    def is_ending(self) -> bool:
        """True if the worker has asked it to end."""
        return self._ending is not None

    async def prepare(self) -> None:
        """Send the child, before its first order, a description of this process.

        Raises `ConnectionError` when the child has ended.
        """
        if self._preparation is not None:
            await self._send(self._preparation)
            self._preparation = None

    async def send_order(self, order: ChildOrder) -> None:
        """Send the child an order. Raises `ConnectionError` when the child has ended."""
        await self._send(order)

    async def reply(self, value: object) -> None:
        """Answer the child's question."""
        await self._send(value)

    async def receive(self, limit: int) -> bytearray:
        """Wait for the child's next message. Raises `EOFError` or `ConnectionError` when the child ends first.

        Raises `UnreadableError` when the message has more than `limit` bytes.
        """
        self._is_channel_free.clear()
        try:
            return await receive_frame(self._channel, limit)
        finally:
            self._is_channel_free.set()

    def dismiss(self, grace: float) -> asyncio.Task[int]:
        """Let a child without an order end by itself. It is killed if that takes longer than `grace` seconds."""
        return self._end_once(grace, must_interrupt=False)

    def end(self, grace: float) -> asyncio.Task[int]:
        """Interrupt the child. It and its own children are killed after `grace` seconds."""
        return self._end_once(grace, must_interrupt=True)

    def _end_once(self, grace: float, *, must_interrupt: bool) -> asyncio.Task[int]:
        if self._ending is None:
            ending = self._end(grace, must_interrupt=must_interrupt)
            self._ending = self._loop.create_task(ending, name=f"end {self!r}")
        return self._ending

    async def _end(self, grace: float, *, must_interrupt: bool) -> int:
        try:
            self._shut(socket.SHUT_WR)  # an idle child ends; a busy one knows that the SIGTERM is from its worker
            if must_interrupt:
                self._interrupt()
            await asyncio.wait({self.exited}, timeout=grace)
        finally:
            if must_interrupt or not self.exited.done():
                self._kill_session()
        await asyncio.wait({self.exited})
        await self._is_channel_free.wait()  # a socket must not be closed while it is being read
        self._channel.close()
        return self.exited.result()

    async def _send(self, value: object) -> None:
        self._is_channel_free.clear()
        try:
            await send_frame(self._channel, pickle.dumps(value, pickle.HIGHEST_PROTOCOL))
        finally:
            self._is_channel_free.set()

    def _interrupt(self) -> None:
        if not self.exited.done():
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGTERM)

    def _kill_session(self) -> None:
        # Programs that the task had started may still run when the child itself has ended.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    def _shut(self, how: int) -> None:
        with suppress(OSError):  # closed, or the other side is gone
            self._channel.shutdown(how)

    def _wait(self) -> None:
        exit_code = self._process.wait()
        with suppress(RuntimeError):  # the loop is closed, and nothing waits for the child
            self._loop.call_soon_threadsafe(self._note_exit, exit_code)

    def _note_exit(self, exit_code: int) -> None:
        self.exited.set_result(exit_code)
        self._shut(socket.SHUT_RD)  # what the child has sent can still be read


def _describe_this_process() -> dict[str, Any]:
    """Return what multiprocessing gives a spawned process: path, arguments, folder and main module of its parent."""
    from multiprocessing import spawn  # noqa: PLC0415 - takes a while to load, and few workers need it

    preparation = spawn.get_preparation_data("ferryman-child")
    del preparation["authkey"]  # a secret, which refuses to be pickled
    return preparation


def _start_process(channel: socket.socket, path: list[Any]) -> subprocess.Popen[bytes]:
    """Start an interpreter that serves the other end of `channel`. Returns after a millisecond or two, before it is up.

    The process has a session of its own: Ctrl-C does not reach it, and programs that its task leaves running can be
    ended with it.
    """
    from multiprocessing import spawn  # noqa: PLC0415 - see above

    # Linux ends a child with the *thread* that started it, so this must run in the thread of the event loop.
    importable = (entry for entry in path if isinstance(entry, str))
    with held_back():
        return subprocess.Popen(  # noqa: S603 - this interpreter, with a program of ours
            [
                *(os.fsdecode(spawn.get_executable()), *_interpreter_flags(), "-c", _PROGRAM),
                *(str(channel.fileno()), str(os.getpid()), *importable),
            ],
            stdin=subprocess.DEVNULL,
            pass_fds=(channel.fileno(),),
            start_new_session=True,
        )


def _interpreter_flags() -> list[str]:
    # Private, but what multiprocessing itself uses; the alternative is a copy of it.
    flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]  # noqa: SLF001
    return flags
