"""Classes as tasks: their fields are the payload, their instances are jobs."""

from dataclasses import dataclass
from typing import Any, ClassVar, TypedDict

import msgspec
import pydantic
import pytest

from ferryman import App, JobSpec, WorkerContext
from ferryman.errors import InvalidPayloadError, TaskError


@pytest.fixture
def app() -> App:
    return App()


@dataclass
class SendEmail:
    to: str
    subject: str = "Hello"

    async def run(self, ctx: WorkerContext) -> Any:
        return self, ctx


@dataclass(frozen=True, slots=True)
class Frozen:
    to: str

    def run(self) -> Any:
        return self


class Struct(msgspec.Struct):
    to: str

    def run(self, ctx: Any) -> Any:
        return self, ctx


class Model(pydantic.BaseModel):
    to: str

    async def run(self, worker) -> Any:
        return self, worker


def test_the_class_itself_is_left_alone(app: App) -> None:
    assert app.task(SendEmail) is SendEmail
    assert app.task(identifier="other")(Frozen) is Frozen


@pytest.mark.parametrize(
    ("name", "identifier"),
    [
        ("SendEmail", "send_email"),
        ("Send", "send"),
        ("SendHTTPRequest", "send_http_request"),
        ("ParseV2File", "parse_v2_file"),
        ("already_snake", "already_snake"),
        ("PDF", "pdf"),
    ],
)
def test_the_identifier_is_the_name_in_snake_case(app: App, name: str, identifier: str) -> None:
    app.task(dataclass(type(name, (), {"run": lambda self: None})))

    assert list(app.tasks) == [identifier]


def test_a_class_may_name_its_own_identifier(app: App) -> None:
    @app.task
    @dataclass
    class Named:
        IDENTIFIER: ClassVar[str] = "mail/send"

        def run(self) -> None: ...

    assert list(app.tasks) == ["mail/send"]


def test_an_identifier_that_is_a_field_is_refused(app: App) -> None:
    @dataclass
    class Named:
        IDENTIFIER: str = "mail"

        def run(self) -> None: ...

    with pytest.raises(TaskError, match=r"IDENTIFIER is a field, .* annotate it as `ClassVar\[str\]`"):
        app.task(Named)


@pytest.mark.parametrize("task_class", [SendEmail, Frozen, Struct, Model])
def test_an_instance_is_a_job_and_comes_back_equal(app: App, task_class: Any) -> None:
    app.task(identifier="it", max_attempts=3)(task_class)

    job = app.registry.job_of(task_class(to="a@b.c"))
    call = app.tasks["it"].decode(job.payload_json, "the context")

    assert (job.identifier, job.spec) == ("it", JobSpec(max_attempts=3))
    assert call.args == (task_class(to="a@b.c"),)


@pytest.mark.parametrize(
    ("task_class", "is_async"), [(SendEmail, True), (Frozen, False), (Struct, False), (Model, True)]
)
async def test_run_is_called_with_the_instance_and_the_context(app: App, task_class: Any, is_async: bool) -> None:
    app.task(identifier="it")(task_class)
    task = app.tasks["it"]
    call = task.decode('{"to":"a"}', "the context")

    outcome = task.function(*call.args, **call.kwargs)
    result = await outcome if is_async else outcome

    assert task.is_async is is_async
    assert result == (task_class(to="a") if task_class is Frozen else (task_class(to="a"), "the context"))


def test_a_class_task_also_makes_jobs_from_fields(app: App) -> None:
    app.task(SendEmail)

    assert app.tasks["send_email"].job(to="a") == app.registry.job_of(SendEmail("a"))


@pytest.mark.parametrize(
    ("fields", "problem"),
    [({"to": 5}, "field 'to' expected str, got int"), ({}, r".*missing 1 required positional argument: 'to'")],
)
def test_wrong_fields_are_refused_with_the_signature(app: App, fields: dict[str, Any], problem: str) -> None:
    app.task(SendEmail)

    with pytest.raises(
        InvalidPayloadError, match=rf"^SendEmail\(to: str, subject: str = ...\): {problem}; nothing was added$"
    ):
        app.tasks["send_email"].job(**fields)


def test_an_instance_changed_into_something_wrong_is_refused(app: App) -> None:
    app.task(SendEmail)
    mail = SendEmail("a")
    mail.subject = None

    with pytest.raises(InvalidPayloadError, match="field 'subject' expected str, got null"):
        app.registry.job_of(mail)


def test_keys_of_the_queue_itself_are_dropped(app: App) -> None:
    app.task(SendEmail)

    assert app.tasks["send_email"].decode('{"to":"a","_cron":{}}').args == (SendEmail("a"),)


class Plain:
    def run(self) -> None: ...


@dataclass
class WithoutRun:
    to: str


@dataclass
class StaticRun:
    @staticmethod
    def run() -> None: ...


@dataclass
class TooMany:
    to: str

    def run(self, ctx: WorkerContext, subject: str) -> None: ...


@dataclass
class WrongOne:
    to: str

    def run(self, subject: str) -> None: ...


class Typed(TypedDict):
    to: str


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (Plain, "a task class is a dataclass, a pydantic model, a msgspec struct or an attrs class"),
        (WithoutRun, "class WithoutRun cannot be a task: it has no method `run`"),
        (StaticRun, "class StaticRun cannot be a task: it has no method `run`"),
        (Typed, "class Typed cannot be a task: it has no method `run`"),
        (TooMany, "`run` takes `self` and the context, and cannot take subject: str; make it a field"),
        (WrongOne, "`run` takes `self` and the context, and cannot take subject: str; make it a field"),
    ],
)
def test_a_class_that_cannot_be_a_task_is_refused_with_what_to_do(app: App, wrong: Any, reason: str) -> None:
    with pytest.raises(TaskError, match=reason):
        app.task(wrong)


def test_fields_and_attributes_of_a_class_do_not_disturb_its_task(app: App) -> None:
    @app.task
    @dataclass
    class Odd:
        identifier: str = "theirs"
        function: str = "theirs"
        defaults: int = 5

        def run(self) -> None: ...

    task = app.tasks["odd"]

    assert (task.identifier, task.defaults) == ("odd", JobSpec())
    assert task.decode(task.job().payload_json).args == (Odd(),)


def test_a_subclass_is_a_task_of_its_own(app: App) -> None:
    app.task(SendEmail)

    @app.task
    @dataclass
    class SendReport(SendEmail):
        pages: int = 1

    assert app.registry.job_of(SendReport("a")).identifier == "send_report"
