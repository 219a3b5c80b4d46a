"""What can become a task, and what is refused where it is written."""

import functools
import inspect
import socket
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from dataclasses import InitVar, dataclass
from typing import Any

import pytest

from ferryman import App, JobSpec, Task
from ferryman.errors import DuplicateTaskError, InvalidJobError, TaskError


@pytest.fixture
def app() -> App:
    return App()


def test_the_name_of_the_function_is_the_identifier(app: App) -> None:
    @app.task
    def send_email() -> None: ...

    assert send_email.identifier == "send_email"
    assert dict(app.tasks) == {"send_email": send_email}


def test_options_may_be_empty_or_say_another_identifier(app: App) -> None:
    @app.task()
    def one() -> None: ...

    @app.task(identifier="deux")
    def two() -> None: ...

    assert list(app.tasks) == ["one", "deux"]


def test_options_can_be_shared_and_refined(app: App) -> None:
    on_gpu = app.task(queue_name="gpu", max_attempts=2)

    @on_gpu
    def train() -> None: ...

    @on_gpu(identifier="tune", max_attempts=9)
    def tune_model() -> None: ...

    assert train.defaults == JobSpec(queue_name="gpu", max_attempts=2)
    assert (tune_model.identifier, tune_model.defaults) == ("tune", JobSpec(queue_name="gpu", max_attempts=9))


def test_wrong_options_are_refused_at_once(app: App) -> None:
    with pytest.raises(InvalidJobError, match="max_attempts must be between 1 and 32767"):
        app.task(max_attempts=0)
    with pytest.raises(TypeError, match="max_atempts"):
        app.task(max_atempts=3)


def test_a_task_still_looks_like_its_function(app: App) -> None:
    @app.task
    def shout(text: str) -> str:
        """Say it loudly."""
        return text.upper()

    assert shout("hi") == "HI"
    assert (shout.__name__, shout.__doc__) == ("shout", "Say it loudly.")
    assert list(inspect.signature(shout).parameters) == ["text"]


async def test_calling_an_async_task_gives_something_to_await(app: App) -> None:
    @app.task
    async def double(number: int) -> int:
        return 2 * number

    assert await double(4) == 8


def test_a_task_knows_whether_it_must_be_awaited(app: App) -> None:
    class Caller:
        async def __call__(self, x: int) -> None: ...

    async def later(x: int) -> None: ...

    def now(x: int) -> None: ...

    kinds = {"later": later, "now": now, "partly": functools.partial(later, x=1), "caller": Caller()}
    made: list[Task[..., Any]] = [app.task(identifier=name)(each) for name, each in kinds.items()]

    assert [task.is_async for task in made] == [True, False, True, True]


def test_a_wrapped_function_keeps_its_own_parameters(app: App) -> None:
    def logged(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        return wrapper

    @app.task
    @logged
    def add(a: int, b: int) -> int:
        return a + b

    assert add.job(1, b=2).payload_json == '{"a":1,"b":2}'


def test_a_bound_method_can_be_a_task(app: App) -> None:
    class Mailer:
        def send(self, to: str) -> str:
            return to

    send = app.task(Mailer().send)

    assert send.decode(send.job("a").payload_json).kwargs == {"to": "a"}


def test_a_parameter_may_be_called_self_outside_a_class(app: App) -> None:
    @app.task
    def describe(self: str, args: int, kwargs: int) -> str:
        return f"{self}{args}{kwargs}"

    assert describe.job(self="a", args=1, kwargs=2).payload_json == '{"self":"a","args":1,"kwargs":2}'
    assert describe(self="a", args=1, kwargs=2) == "a12"


def test_the_printed_form_shows_the_signature(app: App) -> None:
    @app.task(identifier="mail")
    def send(to: str, copies: list[int] | None = None, *, secret: str = "hunter2") -> None: ...

    assert repr(send) == "<Task 'mail': send(to: str, copies: list[int] | None = ..., *, secret: str = ...)>"


def positional_only(a: int, /) -> None: ...
def star_args(*numbers: int) -> None: ...
def a_socket(connection: socket.socket) -> None: ...
def nested_socket(connections: dict[str, list[socket.socket]]) -> None: ...
def iterable(rows: Iterable[int]) -> None: ...
def typed_extra(**sockets: socket.socket) -> None: ...
def not_a_type(a: "1 +") -> None: ...  # noqa: F722
def no_such_attribute(a: "socket.sokcet") -> None: ...


@dataclass
class Left:
    a: int


@dataclass
class Right:
    a: int


@dataclass
class WithInitVar:
    a: InitVar[int]


def either(a: Left | Right, b: int) -> None: ...
def init_var(a: WithInitVar) -> None: ...


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (positional_only, "parameter 'a: int' cannot be filled: the worker passes every argument by its name"),
        (star_args, r"parameter '\*numbers: int' cannot be filled: JSON objects have keys, not positions"),
        (a_socket, "parameter 'connection: socket' cannot be filled: socket cannot be read from JSON"),
        (nested_socket, "parameter 'connections: .*' cannot be filled: socket cannot be read from JSON"),
        (iterable, "parameter 'rows: Iterable.*' cannot be filled: Iterable cannot be read from JSON"),
        (typed_extra, r"parameter '\*\*sockets: socket' cannot be filled: socket cannot be read from JSON"),
        (not_a_type, "the annotation '1 \\+' is not a type"),
        (no_such_attribute, "the annotation 'socket.sokcet' is not a type"),
        (either, "parameter 'a: Left | Right' cannot be filled: Type unions may not contain more than one dataclass"),
        (init_var, "parameter 'a: WithInitVar' cannot be filled: dataclasses with `InitVar` fields are not supported"),
    ],
)
def test_a_parameter_that_no_payload_can_fill_is_refused_where_it_is_written(
    app: App, function: Any, reason: str
) -> None:
    with pytest.raises(TaskError, match=rf"^task .*\.{function.__name__} \(.*test_task_definitions.py:\d+\): {reason}"):
        app.task(function)
    assert app.tasks == {}


def test_generators_are_refused_because_calling_them_runs_nothing(app: App) -> None:
    def rows() -> Iterator[int]:
        yield 1

    async def pages() -> AsyncIterator[int]:
        yield 1

    for function in (rows, pages):
        with pytest.raises(TaskError, match="it is a generator, and calling it would run nothing"):
            app.task(function)


def test_a_method_inside_a_class_is_refused(app: App) -> None:
    with pytest.raises(TaskError, match=r"a method cannot be a task\. Make it a function, or make the whole class"):

        class Mailer:
            @app.task
            def send(self, to: str) -> None: ...


def test_something_without_a_name_needs_an_identifier(app: App) -> None:
    with pytest.raises(TaskError, match="has no name, so its task needs an identifier"):
        app.task(lambda x: x)
    with pytest.raises(TaskError, match="has no name, so its task needs an identifier"):
        app.task(functools.partial(round, ndigits=2))


@pytest.mark.parametrize("thing", ["send_email", 5, object()])
def test_only_functions_and_classes_become_tasks(app: App, thing: Any) -> None:
    with pytest.raises(TaskError, match="only a function or a class can become a task"):
        app.task(thing)


def test_a_task_does_not_become_a_task_again(app: App) -> None:
    @app.task
    def one() -> None: ...

    with pytest.raises(TaskError, match="only a function or a class can become a task"):
        app.task(one)


def test_an_identifier_that_the_database_would_refuse_is_refused(app: App) -> None:
    with pytest.raises(InvalidJobError, match="identifier must have 1 to 128 characters"):
        app.task(identifier="x" * 129)(lambda: None)


def test_two_tasks_with_one_identifier_are_refused_with_both_places(app: App) -> None:
    @app.task
    def send() -> None: ...

    with pytest.raises(
        DuplicateTaskError,
        match=r"two tasks have the identifier 'send': \S+send \(\S+\.py:\d+\) and \S+other \(\S+\.py:\d+\)",
    ):

        @app.task(identifier="send")
        def other() -> None: ...

    assert app.tasks["send"] is send
