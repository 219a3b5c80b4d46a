"""The app: its tasks, its settings and its clients."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from ferryman import App, Client, SyncClient
from ferryman.errors import ConfigurationError, DuplicateTaskError, UnknownTaskError


def test_an_app_can_be_made_where_no_database_is_configured() -> None:
    assert App().tasks == {}


def test_the_environment_is_read_when_the_settings_are_first_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    app = App()
    monkeypatch.setenv("DATABASE_URL", "postgresql://later/db")

    assert app.settings.database_url == "postgresql://later/db"


def test_arguments_win_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://environment/db")
    monkeypatch.setenv("FERRYMAN_SCHEMA", "environment")

    settings = App("postgresql://given/db", schema="given", max_payload_bytes=10).settings

    assert (settings.database_url, settings.schema, settings.max_payload_bytes) == (
        "postgresql://given/db",
        "given",
        10,
    )


@pytest.mark.parametrize("given", [{"max_payload_bytes": 0}, {"schema": ""}, {"database_url": 5}])
def test_wrong_arguments_are_refused_at_once(given: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        App(**given)


def test_the_password_is_never_printed() -> None:
    app = App("postgresql://u:hunter2@host/db")

    @app.task
    def send(password: str = "hunter2") -> None: ...

    shown = f"{app!r} {app.settings!r} {app.registry!r} {send!r} {app.task!r} {app.client()!r} {app.sync_client()!r}"

    assert "hunter2" not in shown
    assert "<App: send>" in shown


def test_tasks_are_there_to_look_at() -> None:
    app = App()

    with pytest.raises(TypeError, match="does not support item assignment"):
        app.tasks["x"] = None


def test_clients_know_the_settings_and_tasks_of_their_app() -> None:
    app = App("postgresql://host/db", schema="ours", max_payload_bytes=10)

    for client in (app.client(use_local_time=True), app.sync_client(use_local_time=True)):
        assert isinstance(client, (Client, SyncClient))
        assert repr(client).endswith("(schema='ours')")
        assert client._core.tasks is app.registry
        assert client._core.max_payload_bytes == 10
        assert client._core.use_local_time


def test_an_app_takes_over_the_tasks_of_another() -> None:
    app, library = App(), App()

    @library.task
    def clean() -> None: ...

    app.include(library)
    app.include(library)

    assert dict(app.tasks) == {"clean": clean}
    assert app.registry.find("clean") is clean


def test_a_task_class_of_another_app_is_known_too() -> None:
    app, library = App(), App()

    @library.task
    @dataclass
    class Clean:
        def run(self) -> None: ...

    app.include(library)

    assert app.registry.job_of(Clean()).identifier == "clean"


def test_including_a_task_with_a_taken_identifier_changes_nothing() -> None:
    app, library = App(), App()

    @app.task(identifier="clean")
    def ours() -> None: ...

    @library.task
    def tidy() -> None: ...

    @library.task(identifier="clean")
    def theirs() -> None: ...

    with pytest.raises(DuplicateTaskError, match=r"'clean': \S+ours \(.*\) and \S+theirs \("):
        app.include(library)
    assert dict(app.tasks) == {"clean": ours}


def test_tasks_defined_after_a_client_was_made_are_known_to_it() -> None:
    app = App("postgresql://host/db")
    client = app.client()

    @app.task
    def late() -> None: ...

    assert client._core.tasks.find("late") is late


def test_an_unknown_identifier_is_refused_with_what_is_known() -> None:
    app = App()

    @app.task
    def send_email() -> None: ...

    with pytest.raises(
        UnknownTaskError,
        match=r"no task 'send_emial' is defined here \(did you mean 'send_email'\?\). Known tasks: send_email",
    ):
        app.registry.find("send_emial")


def test_what_is_not_a_job_is_refused_with_what_to_pass_instead() -> None:
    app = App()

    @app.task
    async def send_email(to: str) -> None: ...

    @app.task
    @dataclass
    class Charge:
        def run(self) -> None: ...

    mistakes = {
        "'send_email' is a task, not a job: pass send_email.job": send_email,
        r"send_email\(…\) was called instead of described: pass send_email.job": send_email(to="a"),
        "Charge is a class: pass an instance of it": Charge,
        "dict is not a task class of this application": {"to": "a"},
        r"None is not a job: did you call task\(…\) instead of task.job\(…\)\?": None,
        r"'send_email' is a string, not a job: .* by name with add_raw_job\('send_email', …\)": "send_email",
    }
    for message, mistake in mistakes.items():
        with pytest.raises(UnknownTaskError, match=f"{message}.*; nothing was added"):
            app.registry.job_of(mistake)


async def test_lifespans_are_opened_in_order_and_closed_in_reverse() -> None:
    app, library, said = App(), App(), []

    @library.lifespan
    async def pool() -> AsyncIterator[None]:
        said.append("pool opened")
        yield
        said.append("pool closed")

    app.include(library)
    app.include(library)

    @app.lifespan
    @asynccontextmanager
    async def http() -> AsyncIterator[dict[str, str]]:
        said.append("http opened")
        yield {"http": "a client"}
        said.append("http closed")

    async with app.lifespans.open() as brought:
        assert brought == {"http": "a client"}
        assert said == ["pool opened", "http opened"]
    assert said[2:] == ["http closed", "pool closed"]


async def test_a_lifespan_sees_why_the_worker_failed_but_cannot_hide_it() -> None:
    app, seen = App(), []

    @app.lifespan
    async def curious() -> AsyncIterator[None]:
        try:
            yield
        except ValueError as error:
            seen.append(error)

    with pytest.raises(ValueError, match="no database") as raised:
        async with app.lifespans.open():
            raise ValueError("no database")
    assert seen == [raised.value]


async def test_a_lifespan_that_fails_is_named_and_those_before_it_are_closed() -> None:
    app, said = App(), []

    @app.lifespan
    async def first() -> AsyncIterator[None]:
        try:
            yield
        finally:
            said.append("first closed")

    @app.lifespan
    async def second() -> AsyncIterator[None]:
        raise OSError("no route")
        yield

    with pytest.raises(ConfigurationError, match=r"second' failed to start at .*test_apps.py:\d+: OSError: no route"):
        async with app.lifespans.open():
            said.append("went on")
    assert said == ["first closed"]


async def test_a_lifespan_that_fails_to_end_is_named_and_the_others_are_closed() -> None:
    app, said = App(), []

    @app.lifespan
    async def first() -> AsyncIterator[None]:
        try:
            yield
        finally:
            said.append("first closed")

    @app.lifespan
    async def second() -> AsyncIterator[None]:
        yield
        raise OSError("no route")

    with pytest.raises(ConfigurationError, match=r"second' failed to end at .*test_apps.py:\d+: OSError: no route"):
        async with app.lifespans.open():
            pass
    assert said == ["first closed"]


async def test_what_two_lifespans_bring_must_differ() -> None:
    app = App()

    @app.lifespan
    async def one() -> AsyncIterator[dict[str, int]]:
        yield {"http": 1}

    @app.lifespan
    async def other() -> AsyncIterator[dict[str, int]]:
        yield {"http": 2}

    with pytest.raises(ConfigurationError, match=r"other' provides the extension 'http', which another lifespan"):
        async with app.lifespans.open():
            pass


async def test_what_is_no_lifespan_is_refused_with_how_to_write_one() -> None:
    app = App()

    async def forgot_to_yield() -> None: ...

    async def brings_a_list() -> AsyncIterator[list[int]]:
        yield [1]

    for mistake in (forgot_to_yield, "http", _plain_generator):
        with pytest.raises(ConfigurationError, match="cannot be used: write an `async def`"):
            app.lifespan(mistake)
    for late, message in ((brings_a_list, "provides list, not a mapping"), (lambda: 5, "gave int: write")):
        other = App()
        other.lifespan(late)
        with pytest.raises(ConfigurationError, match=message):
            async with other.lifespans.open():
                pass


def _plain_generator() -> Iterator[None]:
    yield
