"""The app: its tasks, its settings and its clients."""

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
    }
    for message, mistake in mistakes.items():
        with pytest.raises(UnknownTaskError, match=f"{message}.*; nothing was added"):
            app.registry.job_of(mistake)
