"""What a child tells its worker while it works on an order."""

from __future__ import annotations

import pickle
import threading
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ferryman.errors import FerrymanError
from ferryman.worker.running.children.framing import read_frame, write_frame
from ferryman.worker.running.children.messages import encode_note

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator

    from ferryman.worker.running.children.messages import ChildAsksKeys, ChildNote


class Notes:
    """The child's side of the channel during one order. A task may have threads, and one of them may outlive it.

    Messages go out whole and one after the other. A thread can interrupt itself while it is sending, to run a finalizer
    or a signal handler. What that has to say is left to what it interrupted: waiting would be waiting for itself.
    """

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._lock = threading.RLock()
        self._is_sending = False
        self._waiting: deque[bytes] = deque()
        self._has_ended = False

    def tell(self, note: ChildNote) -> None:
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
        """Send a question, and wait for the answer."""
        with self._lock:
            if self._is_sending:
                raise FerrymanError("a finalizer or a signal handler has come in between, and cannot complete the job")
            if self._has_ended:
                raise FerrymanError("the attempt is over; what it has left running can no longer complete the job")
            with self._sending():
                self._waiting.append(encode_note(question))
                self._write_waiting()
                return pickle.loads(read_frame(self._channel))  # noqa: S301 - from the worker

    def end_with(self, message: bytes) -> None:
        """Send what came of the order. Whatever is told after that is dropped."""
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
            self._has_ended = True  # half a message may have gone out, which nothing can follow
            raise
        finally:
            self._is_sending = False
