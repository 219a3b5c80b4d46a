"""Exceptions on their way from a child to its worker."""

from __future__ import annotations

from datetime import timedelta

import pytest

from ferryman.errors import FerrymanError
from ferryman.worker.children.carrying import MAX_BYTES, pack_exception, unpack_exception


class DelayedError(FerrymanError):
    """Cannot be made from its `args`."""

    def __init__(self, reason: str = "later", *, after: timedelta) -> None:
        super().__init__(reason)
        self.after = after


class WordyError(FerrymanError):
    """Says something else when it is made from its `args`."""

    def __init__(self, delay: timedelta) -> None:
        super().__init__(f"wait {delay}")
        self.delay = delay


@pytest.mark.parametrize(
    "error",
    [
        ValueError("too small"),
        FileNotFoundError(2, "No such file", "image.png"),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid"),
        DelayedError(after=timedelta(seconds=5)),
        WordyError(timedelta(seconds=5)),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_exception_comes_back_as_what_it_was(error: Exception) -> None:
    message = pack_exception(error)
    assert message is not None
    copy = unpack_exception(message)
    assert type(copy) is type(error)
    assert (str(copy), vars(copy)) == (str(error), vars(error))


def test_notes_come_along() -> None:
    error = ValueError("too small")
    error.add_note("while resizing image.png")
    message = pack_exception(error)
    assert message is not None
    assert vars(unpack_exception(message)) == {"__notes__": ["while resizing image.png"]}


def test_an_exception_that_holds_what_cannot_leave_the_process_stays_there() -> None:
    assert pack_exception(ValueError(lambda: None)) is None


def test_an_exception_that_holds_too_much_stays_there() -> None:
    assert pack_exception(ValueError("x" * MAX_BYTES)) is None


def test_an_exception_that_nobody_knows_here_is_none() -> None:
    assert unpack_exception(b"\x80\x05cnowhere\nLostError\n.") is None
