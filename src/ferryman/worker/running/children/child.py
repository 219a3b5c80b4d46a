"""A child, as its worker sees it."""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import socket
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

from ferryman.script_guard import refuse_while_importing
from ferryman.worker.running.children.framing import receive_frame, send_frame

if TYPE_CHECKING:
    import subprocess

    from ferryman.worker.running.children.orders import ChildOrder


class Child:
    """A process that runs one order at a time.

    One thread per child waits for the process to end, since no portable call lets an event loop do that. Its end also
    ends the channel, so that whoever waits for an answer learns of it, even when a process that the child had forked
    holds its side open.
    """

    def __init__(self, process: subprocess.Popen[bytes], channel: socket.socket, preparation: dict[str, Any]) -> None:
        self._process = process
        self._channel = channel
        self._preparation: dict[str, Any] | None = preparation
        self._loop = asyncio.get_running_loop()
        self._at_rest = asyncio.Event()
        self._at_rest.set()
        self._ending: asyncio.Task[int] | None = None
        self.orders_done = 0
        self.exited: asyncio.Future[int] = self._loop.create_future()
        threading.Thread(target=self._wait, name=f"ferryman-child-{process.pid}", daemon=True).start()

    def __repr__(self) -> str:
        return f"<Child {self.pid}>"

    @classmethod
    def start(cls) -> Self:
        """Start a process. `OSError` or `RuntimeError` when the system has no process, file or thread to spare."""
        from ferryman.worker.running.children import starting  # noqa: PLC0415 - brings multiprocessing, which few need

        refuse_while_importing()
        preparation = starting.describe_this_process()
        ours, theirs = socket.socketpair()
        try:
            ours.setblocking(False)
            with theirs:
                process = starting.start_process(theirs, preparation["sys_path"])
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
        """Whether it was told to end."""
        return self._ending is not None

    async def prepare(self) -> None:
        """Tell it, before its first order, what this process is like. `ConnectionError` when it has ended."""
        if self._preparation is not None:
            await self._send(self._preparation)
            self._preparation = None

    async def hand_over(self, order: ChildOrder) -> None:
        """Give it an order. `ConnectionError` when it has ended."""
        await self._send(order)

    async def reply(self, value: object) -> None:
        """Answer its question."""
        await self._send(value)

    async def next_word(self, limit: int) -> bytearray:
        """Wait for what it has to say. `EOFError` or `ConnectionError` when it ends first.

        `UnreadableError` when that has more than `limit` bytes.
        """
        self._at_rest.clear()
        try:
            return await receive_frame(self._channel, limit)
        finally:
            self._at_rest.set()

    def dismiss(self, grace: float) -> asyncio.Task[int]:
        """Let a child without an order leave by itself; kill it when that takes longer than `grace` seconds."""
        return self._end_once(grace, must_interrupt=False)

    def end(self, grace: float) -> asyncio.Task[int]:
        """Interrupt a child whatever it does, and kill it and its own children when `grace` seconds are over."""
        return self._end_once(grace, must_interrupt=True)

    def _end_once(self, grace: float, *, must_interrupt: bool) -> asyncio.Task[int]:
        if self._ending is None:
            ending = self._end(grace, must_interrupt=must_interrupt)
            self._ending = self._loop.create_task(ending, name=f"end {self!r}")
        return self._ending

    async def _end(self, grace: float, *, must_interrupt: bool) -> int:
        try:
            self._shut(socket.SHUT_WR)  # an idle child leaves; a busy one knows that SIGTERM is from us
            if must_interrupt:
                self._interrupt()
            await asyncio.wait({self.exited}, timeout=grace)
        finally:
            if must_interrupt or not self.exited.done():
                self._kill_session()
        await asyncio.wait({self.exited})
        await self._at_rest.wait()  # a socket must not be closed under somebody who reads from it
        self._channel.close()
        return self.exited.result()

    async def _send(self, value: object) -> None:
        self._at_rest.clear()
        try:
            await send_frame(self._channel, pickle.dumps(value, pickle.HIGHEST_PROTOCOL))
        finally:
            self._at_rest.set()

    def _interrupt(self) -> None:
        if not self.exited.done():
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGTERM)

    def _kill_session(self) -> None:
        # Programs that the task had started are still there when the child itself has gone.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    def _shut(self, how: int) -> None:
        with suppress(OSError):  # closed, or the other side is gone
            self._channel.shutdown(how)

    def _wait(self) -> None:
        exit_code = self._process.wait()
        with suppress(RuntimeError):  # the loop is closed, and nobody wants to know
            self._loop.call_soon_threadsafe(self._note_exit, exit_code)

    def _note_exit(self, exit_code: int) -> None:
        self.exited.set_result(exit_code)
        self._shut(socket.SHUT_RD)  # what it had sent can still be read
