"""Annotations that are text, as `from __future__ import annotations` makes all of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from ferryman import App
from ferryman.errors import TaskError

if TYPE_CHECKING:
    from decimal import Decimal

    import ferryman as ferry
    from ferryman import WorkerContext

app = App()


@app.task
async def send_email(ctx: WorkerContext, to: str, subject: str = "Hello") -> None: ...


@app.task
def through_a_module(to: str, ctx: ferry.WorkerContext | None = None) -> None: ...


@app.task
def defined_later(image: Image) -> None: ...


@app.task
def never_imported(price: Decimal) -> None: ...


@app.task
@dataclass
class Charge:
    amount: int
    image: Image | None = None

    async def run(self, ctx: WorkerContext) -> None: ...


@dataclass
class Image:
    path: str
    parts: list[Image] | None = None


def test_a_context_imported_for_type_checkers_only_is_still_the_context() -> None:
    assert send_email.job("a").payload_json == '{"to":"a"}'
    assert send_email.decode('{"to":"a"}', "the context").kwargs == {"to": "a", "ctx": "the context"}
    assert through_a_module.job("a").payload_json == '{"to":"a"}'


def test_types_are_checked_as_if_they_were_not_text() -> None:
    assert repr(send_email) == "<Task 'send_email': send_email(to: str, subject: str = ...)>"


def test_a_type_may_be_defined_after_the_task() -> None:
    assert defined_later.job(Image("a", [Image("b")])).payload_json == (
        '{"path":"a","parts":[{"path":"b","parts":null}]}'
    )


def test_a_field_of_a_task_class_may_have_a_type_defined_after_it() -> None:
    assert app.registry.job_of(Charge(1, Image("a"))).identifier == "charge"


def test_a_type_of_the_function_around_the_task_is_found() -> None:
    @dataclass
    class Local:
        a: int

    @app.task
    def local(value: Local) -> None: ...

    @app.task(identifier="other")
    def with_options(value: Local) -> None: ...

    assert local.job(Local(1)).payload_json == '{"a":1}'
    assert with_options.job(Local(1)).payload_json == '{"a":1}'


@pytest.mark.parametrize("use", [lambda task: task.job(1), lambda task: task.decode("{}")])
def test_a_type_that_is_never_imported_is_refused_at_first_use(use: Any) -> None:
    with pytest.raises(TaskError, match=r"name 'Decimal' is not defined.* not only under `if TYPE_CHECKING:`"):
        use(never_imported)


def test_all_tasks_can_be_checked_before_the_first_job() -> None:
    sound, unsound = App(), App()
    sound.task(lambda x: None, identifier="sound")
    unsound.registry.add(never_imported)

    sound.registry.check()
    with pytest.raises(TaskError, match="name 'Decimal' is not defined"):
        unsound.registry.check()


def test_a_task_with_unknown_types_can_still_be_printed() -> None:
    assert repr(never_imported) == "<Task 'never_imported': never_imported(…)>"
