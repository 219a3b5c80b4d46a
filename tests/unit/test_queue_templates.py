"""Queue names that depend on the payload."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from ferryman import App
from ferryman.errors import InvalidPayloadError, TaskError

app = App()


@dataclass
class Order:
    id: int
    customer: str


def test_each_value_of_a_field_gets_a_queue_of_its_own() -> None:
    @app.task(identifier="by_user", queue_name="user:{user_id}")
    def send(user_id: int, text: str) -> None: ...

    assert send.job(user_id=7, text="hi").spec.queue_name == "user:7"
    assert send.job(user_id=8, text="hi").spec.queue_name == "user:8"


def test_fields_within_fields_and_several_places_work() -> None:
    @app.task(identifier="by_order", queue_name="{order.customer}/{region}")
    def ship(order: Order, region: str) -> None: ...

    assert ship.job(Order(1, "ann"), "north").spec.queue_name == "ann/north"


def test_a_whole_payload_has_its_fields() -> None:
    @app.task(identifier="whole", queue_name="order:{id}")
    def ship(order: Order) -> None: ...

    assert ship.job(Order(12, "ann")).spec.queue_name == "order:12"


def test_doubled_braces_are_braces() -> None:
    @app.task(identifier="braces", queue_name="{{{name}}}")
    def send(name: str) -> None: ...

    assert send.job("a").spec.queue_name == "{a}"


@pytest.mark.parametrize("value", [None, 1.5, True, ["a"], {"a": 1}])
def test_only_texts_and_whole_numbers_name_a_queue(value: Any) -> None:
    @app.task(identifier=f"odd {value}", queue_name="by {key}")
    def send(key: Any) -> None: ...

    with pytest.raises(InvalidPayloadError, match=r"queue name 'by \{key\}' needs a text or a whole number as 'key'"):
        send.job(key=value)


@pytest.mark.parametrize("text", ["user:{", "user:}", "{0}", "{}", "{a!r}", "{a:>3}", "{a[0]}"])
def test_templates_that_cannot_be_read_are_refused_where_they_are_written(text: str) -> None:
    with pytest.raises(TaskError, match=r"queue_name .* cannot be read"):

        @app.task(identifier="unreadable", queue_name=text)
        def send(a: str) -> None: ...
