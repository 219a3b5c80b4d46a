"""Messages on a stream socket: eight bytes that say how long the message is, and the message.

The worker's half is asynchronous and the child's half blocks. Neither side writes before the other is reading to the
end, so messages may be larger than any buffer between them. The worker trusts no child: it makes room for a message
only when it knows that it is not too large.
"""

from __future__ import annotations

import asyncio
import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import socket

_HEADER = struct.Struct("!Q")


class UnreadableError(Exception):
    """A child has sent what its worker does not read."""


async def send_frame(channel: socket.socket, message: bytes) -> None:
    """Send a message; `OSError` when nobody is left to read it."""
    await asyncio.get_running_loop().sock_sendall(channel, _framed(message))


async def receive_frame(channel: socket.socket, limit: int) -> bytearray:
    """Wait for a message; `EOFError` when the other side closes before its end.

    `UnreadableError` when it has more than `limit` bytes. Nothing can be read from the channel after that.
    """
    (size,) = _HEADER.unpack(await _receive(channel, _HEADER.size))
    if size > limit:
        raise UnreadableError(f"wanted to send its worker {size:,} bytes, and {limit:,} are the most that it may send")
    return await _receive(channel, size)


def write_frame(channel: socket.socket, message: bytes) -> None:
    """Send a message; `OSError` when nobody is left to read it."""
    channel.sendall(_framed(message))


def read_frame(channel: socket.socket) -> bytearray:
    """Wait for a message; `EOFError` when the other side closes before its end."""
    (size,) = _HEADER.unpack(_read(channel, _HEADER.size))
    return _read(channel, size)


def _framed(message: bytes) -> bytes:
    return _HEADER.pack(len(message)) + message


async def _receive(channel: socket.socket, size: int) -> bytearray:
    loop = asyncio.get_running_loop()
    message = bytearray(size)
    rest = memoryview(message)
    while rest:
        rest = rest[_some(await loop.sock_recv_into(channel, rest)) :]
    return message


def _read(channel: socket.socket, size: int) -> bytearray:
    message = bytearray(size)
    rest = memoryview(message)
    while rest:
        rest = rest[_some(channel.recv_into(rest)) :]
    return message


def _some(count: int) -> int:
    if count == 0:
        raise EOFError("the other side closed")
    return count
