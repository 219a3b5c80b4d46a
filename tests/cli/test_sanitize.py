"""Text that must neither drive the terminal nor show a password."""

from __future__ import annotations

import pytest

from ferryman.cli.sanitize import clean_line, clean_lines, without_secrets


@pytest.mark.parametrize(
    ("hostile", "shown"),
    [
        ("\x1b[31mred", r"\x1b[31mred"),
        ("\x9b2J", r"\x9b2J"),
        ("bell\x07", r"bell\x07"),
        ("over\rwritten", r"over\rwritten"),
        ("\u202eesrever", r"\u202eesrever"),
        ("half \ud800", r"half \ud800"),
        ("\u2028", r"\u2028"),
        ("🚢 é 漢", "🚢 é 漢"),
    ],
)
def test_control_characters_are_spelled_out(hostile: str, shown: str) -> None:
    assert shown == clean_lines(hostile) == clean_line(hostile)


def test_lines_and_tabs_survive_only_where_there_is_room_for_them() -> None:
    assert clean_lines("a\r\n\tb\n") == "a\n\tb\n"
    assert clean_line("a\n\tb") == r"a\n\tb"


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://me:hunter2@host/db",
        "postgresql://me:hun/ter2@hunter2@host/db",
        "host=h password=hunter2 dbname=d",
        "PASSWORD = 'hunter2 hunter2'",
        r"password='it\'s hunter2'",
        "redis://:hunter2@cache:6379/0",
        "http://me:12345hunter2@host/path?mail=a@b.c",
    ],
)
def test_what_looks_like_a_password_is_hidden_in_messages(text: str) -> None:
    assert "hunter2" not in without_secrets(f"could not use {text!r}")
    assert "***" in without_secrets(text)


@pytest.mark.parametrize(
    "text",
    [
        "http://api.example.com:8080/users?mail=ann@example.com",
        "http://[::1]:8080/users?mail=ann@example.com",
        "https://example.com/~ann: see ann@example.com",
        "postgresql://user:<password>@host:5432/database",
        "://a:" * 200_000,
        "://a:1/" * 200_000 + "@",
        "password" * 100_000,
    ],
    ids=lambda text: text[:60],
)
def test_ordinary_text_of_any_length_is_left_as_it_is(text: str) -> None:
    assert without_secrets(text) == text
