"""The channel between a worker and a child: a stream socket on which each message follows eight bytes with its length.

The worker's half is asynchronous, the child's half blocks. While one side sends, the other reads to the end, so a
message may be larger than the buffers between them. The worker does not trust its children: it reads a message only if
its length is within a limit.
"""

from __future__ import annotations

import asyncio
import pickle
import struct
import threading
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ferryman.errors import FerrymanError
from ferryman.worker.running.children.messages import UnreadableError, encode_note

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator

    from ferryman.worker.running.children.messages import ChildAsksKeys, ChildNote

_HEADER = struct.Struct("!Q")


async def send_frame(channel: socket.socket, message: bytes) -> None:
    """Send a message. Raises `OSError` when the other side is gone."""
    await asyncio.get_running_loop().sock_sendall(channel, _framed(message))


async def receive_frame(channel: socket.socket, limit: int) -> bytearray:
    """Wait for a message. Raises `EOFError` when the other side closes before its end.

    Raises `UnreadableError` when the message has more than `limit` bytes. Nothing can be read from the channel then.
    """
    (size,) = _HEADER.unpack(await _receive(channel, _HEADER.size))
    if size > limit:
        raise UnreadableError(f"tried to send its worker {size:,} bytes, and the limit is {limit:,}")
    return await _receive(channel, size)


def write_frame(channel: socket.socket, message: bytes) -> None:
    """Send a message from the child's side. Raises `OSError` when the worker is gone."""
    channel.sendall(_framed(message))


def read_frame(channel: socket.socket) -> bytearray:
    """Wait for a message on the child's side. Raises `EOFError` when the worker closes before its end."""
    (size,) = _HEADER.unpack(_read(channel, _HEADER.size))
    return _read(channel, size)


class ChildChannel:
    """The child's side of the channel while it works on one order.

    A task may have threads, and one of them may outlive the order: what it sends then is dropped. Messages are sent
    whole, one after the other. A thread can interrupt itself while it sends, to run a finalizer or a signal handler.
    The messages of these are left to the code that was interrupted, as waiting for it would be waiting for itself.
    """

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._lock = threading.RLock()
        self._is_sending = False
        self._waiting: deque[bytes] = deque()
        self._has_ended = False

    def send_note(self, note: ChildNote) -> None:
        """Send a note, or drop it if the order is done."""
        self.send(encode_note(note))

    def send(self, message: bytes) -> None:
        """Send a message, or drop it if the order is done."""
        self._waiting.append(message)
        with self._lock:
            if not self._is_sending:
                with self._sending():
                    self._write_waiting()

    def ask(self, question: ChildAsksKeys) -> Any:
        """Send a question, and wait for the worker's answer."""
        with self._lock:
            if self._is_sending:
                raise FerrymanError(
                    "the job was not completed: a finalizer or a signal handler that interrupts a message to the "
                    "worker cannot complete it"
                )
            if self._has_ended:
                raise FerrymanError(
                    "the job was not completed: its attempt is over, and a thread that the task left behind cannot "
                    "complete it"
                )
            with self._sending():
                self._waiting.append(encode_note(question))
                self._write_waiting()
                return pickle.loads(read_frame(self._channel))  # noqa: S301 - from the worker

    def end_with(self, message: bytes) -> None:
        """Send the result of the order. Later messages are dropped."""
        with self._lock, self._sending():
            self._write_waiting()
            self._has_ended = True
            write_frame(self._channel, message)

    def _write_waiting(self) -> None:
        while self._waiting:
            message = self._waiting.popleft()
            if not self._has_ended:
                write_frame(self._channel, message)

    @contextmanager
    def _sending(self) -> Iterator[None]:
        self._is_sending = True
        try:
            yield
        except BaseException:
            self._has_ended = True  # half a message may have been sent, and no other can follow it
            raise
        finally:
            self._is_sending = False


def _framed(message: bytes) -> bytes:
    return _HEADER.pack(len(message)) + message


async def _receive(channel: socket.socket, size: int) -> bytearray:
    loop = asyncio.get_running_loop()
    message = bytearray(size)
    rest = memoryview(message)
    while rest:
        rest = rest[_not_zero(await loop.sock_recv_into(channel, rest)) :]
    return message


def _read(channel: socket.socket, size: int) -> bytearray:
    message = bytearray(size)
    rest = memoryview(message)
    while rest:
        rest = rest[_not_zero(channel.recv_into(rest)) :]
    return message


def _not_zero(count: int) -> int:
    if count == 0:
        raise EOFError("the other side closed")
    return count
