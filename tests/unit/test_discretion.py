"""What must not be seen is not seen, whoever prints it."""

from __future__ import annotations

import pkgutil
from importlib import import_module
from typing import TYPE_CHECKING

import msgspec
from rich.pretty import pretty_repr

import ferryman
from ferryman.database.addresses import Address
from ferryman.discreet import Discreet
from ferryman.hooks import BeforeJobSchedule
from ferryman.jobs import JobSpec, NewJob
from ferryman.worker.running.children.messages import ChildFailure

if TYPE_CHECKING:
    from collections.abc import Iterator

VALUES = [
    Address("host=x password=secret user=u"),
    BeforeJobSchedule(identifier="send", payload={"token": "secret"}, spec=JobSpec()),
    NewJob("send", '{"token": "secret"}'),
    ChildFailure(error_type="E", message="m", traceback_text="secret"),
]


def test_rich_shows_no_more_than_repr() -> None:
    for value in VALUES:
        assert "secret" not in repr(value)
        assert pretty_repr(value, max_width=1000) == repr(value)


def test_every_struct_with_a_printed_form_of_its_own_is_discreet() -> None:
    for module in pkgutil.walk_packages(ferryman.__path__, "ferryman."):
        if not module.name.endswith(("__main__", "detached")):
            import_module(module.name)
    chosen = [each for each in _structs(msgspec.Struct) if each.__repr__ is not msgspec.Struct.__repr__]
    assert len(chosen) > len(VALUES)
    assert [each for each in chosen if not issubclass(each, Discreet)] == []


def _structs(base: type) -> Iterator[type]:
    for each in base.__subclasses__():
        if each.__module__.startswith("ferryman"):
            yield each
        yield from _structs(each)
