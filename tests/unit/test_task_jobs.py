"""Making jobs: arguments in, payload out, or a refusal that shows the signature."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, NotRequired, TypedDict
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferryman import App, JobSpec, NewJob
from ferryman.errors import InvalidPayloadError

app = App()


class Size(Enum):
    SMALL = "s"
    LARGE = "l"


@dataclass
class Image:
    path: str
    width: int = 100
    data: bytes = b""


class Parcel(msgspec.Struct, rename="camel"):
    order_number: int
    notes: list[str] = msgspec.field(default_factory=list)


class Order(TypedDict):
    number: int
    note: NotRequired[str]


@app.task
async def send_email(to: str, subject: str = "Hello", *, urgent: bool = False) -> None: ...


@app.task
def everything(  # noqa: PLR0917
    when: datetime,
    id_: UUID,
    price: Decimal,
    size: Size,
    tags: set[str],
    names: dict[int, str],
    data: bytes,
    image: Image | None = None,
) -> None: ...


@app.task
def resize(image: Image) -> None: ...


@app.task
def ship(parcel: Parcel) -> None: ...


@app.task
def bill(order: Order) -> None: ...


@app.task
def anything(payload: dict[str, Any]) -> None: ...


@app.task
def mapped(payload: Mapping[str, int]) -> None: ...


@app.task
def collects(first: int, **others: int) -> None: ...


@app.task
def loose(value, other=None): ...


@app.task
def no_payload() -> None: ...


@app.task
def with_default(image: Image = Image("default.png")) -> None: ...  # noqa: B008


def payload_of(job: NewJob) -> Any:
    return json.loads(job.payload_json)


def test_arguments_become_the_keys_of_an_object() -> None:
    assert payload_of(send_email.job(to="a@b.c", subject="Hi")) == {"to": "a@b.c", "subject": "Hi"}


def test_positions_work_as_in_a_call() -> None:
    assert send_email.job("a@b.c", "Hi", urgent=True) == send_email.job(to="a@b.c", subject="Hi", urgent=True)


def test_a_default_is_left_to_the_worker_so_that_it_can_still_change() -> None:
    assert payload_of(send_email.job(to="a@b.c")) == {"to": "a@b.c"}


def test_a_task_without_parameters_has_an_empty_object_for_payload() -> None:
    assert payload_of(no_payload.job()) == {}


def test_a_job_carries_its_task_and_the_tasks_schedule() -> None:
    @app.task(identifier="loud", max_attempts=3, priority=5, queue_name="q", flags=["gpu"])
    def shout(text: str) -> None: ...

    job = shout.job("hi")

    assert job.identifier == "loud"
    assert job.spec == JobSpec(max_attempts=3, priority=5, queue_name="q", flags=["gpu"])


@pytest.mark.parametrize(
    ("args", "kwargs", "problem"),
    [
        ((), {}, "missing argument 'to'"),
        (("a", "b", "c"), {}, "3 positional arguments were given, but it takes 2"),
        (("a",), {"to": "b"}, "argument 'to' was given twice"),
        ((), {"to": "a", "subjct": "b"}, r"unknown argument 'subjct' \(did you mean 'subject'\?\)"),
        ((), {"to": "a", "zzz": "b"}, "unknown argument 'zzz'"),
        ((1,), {}, "argument 'to' expected str, got int"),
        (("a",), {"urgent": "yes"}, "argument 'urgent' expected bool, got str"),
        (("a", None), {}, "argument 'subject' expected str, got null"),
    ],
)
def test_wrong_arguments_are_refused_with_the_signature(args: Any, kwargs: Any, problem: str) -> None:
    signature = r"send_email\(to: str, subject: str = ..., \*, urgent: bool = ...\)"

    with pytest.raises(InvalidPayloadError, match=f"^{signature}: {problem}; nothing was added$"):
        send_email.job(*args, **kwargs)


@pytest.mark.parametrize("text", ["a\0b", "\ud800"])
def test_text_that_postgresql_cannot_store_is_refused_with_the_signature(text: str) -> None:
    with pytest.raises(InvalidPayloadError, match=r"^send_email\(.*\): payload\.to contains .*; nothing was added$"):
        send_email.job(to=text)


def test_every_annotated_type_survives_the_journey() -> None:
    arguments = {
        "when": datetime(2026, 1, 2, tzinfo=UTC),
        "id_": UUID(int=7),
        "price": Decimal("1.10"),
        "size": Size.LARGE,
        "tags": {"a", "b"},
        "names": {1: "one"},
        "data": b"\x00\xff",
        "image": Image("a.png", data=b"x"),
    }

    job = everything.job(**arguments)

    assert everything.decode(job.payload_json).kwargs == arguments


@given(to=st.text(), subject=st.text(), urgent=st.booleans())
def test_a_job_is_refused_or_comes_back_as_it_was(to: str, subject: str, urgent: bool) -> None:
    try:
        job = send_email.job(to, subject, urgent=urgent)
    except InvalidPayloadError:
        assert any(character == "\0" or "\ud800" <= character <= "\udfff" for character in to + subject)
    else:
        assert send_email.decode(job.payload_json).kwargs == {"to": to, "subject": subject, "urgent": urgent}


@pytest.mark.parametrize(
    ("value", "problem"),
    [({"a"}, "payload.value is a set"), (b"x", "payload.value is bytes"), ({1: "a"}, "payload.value has the key 1")],
)
def test_what_no_annotation_would_bring_back_is_refused(value: Any, problem: str) -> None:
    with pytest.raises(InvalidPayloadError, match=rf"^loose\(value, other = ...\): {problem}.*; nothing was added$"):
        loose.job(value)


def test_one_structured_parameter_is_the_whole_payload() -> None:
    assert payload_of(resize.job(Image("a.png", 3))) == {"path": "a.png", "width": 3, "data": ""}
    assert resize.job(image=Image("a.png")) == resize.job(Image("a.png"))


def test_a_struct_keeps_its_own_names_for_keys() -> None:
    assert payload_of(ship.job(Parcel(7))) == {"orderNumber": 7, "notes": []}


def test_typed_and_plain_dicts_are_whole_payloads() -> None:
    assert payload_of(bill.job({"number": 1})) == {"number": 1}
    assert payload_of(anything.job({"any": ["thing"]})) == {"any": ["thing"]}
    assert payload_of(mapped.job({"a": 1})) == {"a": 1}


def test_attrs_classes_are_whole_payloads() -> None:
    attrs = pytest.importorskip("attrs")

    @attrs.define
    class Cargo:
        weight: int

    @app.task
    def load(cargo: Cargo) -> None: ...

    assert payload_of(load.job(Cargo(3))) == {"weight": 3}
    assert load.decode('{"weight":3}').kwargs == {"cargo": Cargo(3)}


@pytest.mark.parametrize(
    ("task", "value", "problem"),
    [
        (resize, Image("a.png", "wide"), "payload field 'width' expected int, got str"),
        (resize, {"width": 3}, "payload field 'path' is missing"),
        (resize, Image(3), "payload field 'path' expected str, got int"),
        (resize, 5, "the payload expected object, got int"),
        (resize, None, "payload field 'path' is missing"),
        (bill, {"numer": 1}, r"payload field 'numer' is unknown \(did you mean 'number'\?\)"),
        (anything, [1], "the payload expected object, got array"),
        (mapped, {"a": "b"}, r"payload field '\[...\]' expected int, got str"),
    ],
)
def test_a_wrong_whole_payload_is_refused_with_the_signature(task: Any, value: Any, problem: str) -> None:
    with pytest.raises(InvalidPayloadError, match=rf"^\w+\(\w+: \S+.*\): {problem}; nothing was added$"):
        task.job(value)


@pytest.mark.parametrize(
    ("args", "kwargs", "problem"),
    [
        ((), {}, "missing argument 'image'"),
        ((Image("a"), Image("b")), {}, "2 arguments were given, but it takes 1"),
        ((), {"path": "a.png"}, "unknown argument 'path'; the whole payload is the argument 'image'"),
    ],
)
def test_wrong_arguments_for_a_whole_payload_are_refused(args: Any, kwargs: Any, problem: str) -> None:
    with pytest.raises(InvalidPayloadError, match=rf"^resize\(image: Image\): {problem}; nothing was added$"):
        resize.job(*args, **kwargs)


def test_a_whole_payload_that_is_left_out_is_null_and_becomes_the_default() -> None:
    job = with_default.job()

    assert job.payload_json == "null"
    assert with_default.decode("null").kwargs == {}
    assert with_default.decode('{"path":"a"}').kwargs == {"image": Image("a")}


def test_extra_keys_go_to_the_collecting_parameter() -> None:
    assert payload_of(collects.job(1, second=2)) == {"first": 1, "second": 2}


@pytest.mark.parametrize(
    ("extra", "problem"),
    [
        ({"second": "two"}, "argument 'second' expected int, got str"),
        ({"_second": 2}, "argument '_second' begins with '_'; such keys are reserved for the queue"),
    ],
)
def test_wrong_extra_keys_are_refused(extra: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidPayloadError, match=problem):
        collects.job(1, **extra)


def test_a_nested_mistake_is_named_by_its_path() -> None:
    @dataclass
    class Album:
        images: list[Image] = field(default_factory=list)

    @app.task
    def publish(album: Album, title: str) -> None: ...

    with pytest.raises(InvalidPayloadError, match=r"argument 'album.images\[0\].width' expected int, got str"):
        publish.job(Album([Image("a", "wide")]), "Title")


def test_limits_in_annotations_hold() -> None:
    @app.task
    def wait(minutes: Annotated[int, msgspec.Meta(ge=1, le=60)]) -> None: ...

    with pytest.raises(InvalidPayloadError, match="argument 'minutes' expected int <= 60"):
        wait.job(61)


def test_a_default_that_is_a_secret_is_not_shown() -> None:
    @app.task
    def log_in(user: str, password: str = "hunter2") -> None: ...

    with pytest.raises(InvalidPayloadError) as refused:
        log_in.job()

    assert "hunter2" not in str(refused.value)
