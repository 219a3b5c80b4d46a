"""Names that a task had before, and payloads that its earlier versions took."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from ferryman import App
from ferryman.errors import DuplicateTaskError, InvalidJobError, InvalidPayloadError, TaskError, UnknownTaskError


@pytest.fixture
def app() -> App:
    return App()


def _today(payload: dict[str, Any]) -> dict[str, Any]:
    return {"to": payload["address"]} if "address" in payload else payload


def test_a_task_is_found_by_each_of_its_names_and_listed_once(app: App) -> None:
    @app.task(aliases=["mail", "email", "mail"])
    def send(to: str) -> None: ...

    assert send.identifiers == ("send", "mail", "email")
    assert [app.registry.find(name) for name in send.identifiers] == [send] * 3
    assert (list(app.tasks), app.registry.names) == (["send"], ["email", "mail", "send"])
    assert send.job(to="a@b.c").identifier == "send"


def test_names_that_two_tasks_want_are_refused_whatever_they_are_to_each(app: App) -> None:
    app.task(lambda: None, identifier="send", aliases=["mail"])
    advice = r"@app\.task\(identifier=…\), or leave it out of aliases=…"

    for identifier, aliases in (("mail", []), ("post", ["send"]), ("post", ["mail"])):
        with pytest.raises(DuplicateTaskError, match=advice):
            app.task(lambda: None, identifier=identifier, aliases=aliases)
    assert app.registry.names == ["mail", "send"], "nothing of a task that was refused is known"

    other = App()
    other.task(lambda: None, identifier="mail")
    with pytest.raises(DuplicateTaskError, match="'mail'"):
        app.include(other)


def test_aliases_and_upgrades_that_cannot_be_are_refused_where_they_are_written(app: App) -> None:
    async def later(payload: dict[str, Any]) -> dict[str, Any]:
        return payload

    wrong: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"aliases": "mail"}, TaskError, "aliases must be a list of identifiers; got the single string 'mail'"),
        ({"aliases": ["send"]}, TaskError, "'send' is the identifier of the task"),
        ({"aliases": [""]}, InvalidJobError, "1 to 128 characters"),
        ({"upgrade": later}, TaskError, "upgrade must be a plain function"),
        ({"upgrade": {}}, TaskError, "upgrade must be a plain function"),
    ]
    for options, kind, message in wrong:
        with pytest.raises(kind, match=message):
            app.task(lambda: None, identifier="send", **options)
    assert not app.tasks


def test_an_old_payload_is_upgraded_before_it_is_checked_and_todays_goes_through_unchanged(app: App) -> None:
    @app.task(upgrade=_today)
    def send(to: str, _cron: Any = None) -> None: ...

    assert send.decode('{"address": "a@b.c"}').kwargs == {"to": "a@b.c"}
    assert send.decode('{"to": "a@b.c"}').kwargs == {"to": "a@b.c"}
    assert send.decode('{"address": "a@b.c", "_cron": 1}').kwargs == {"to": "a@b.c", "_cron": 1}
    with pytest.raises(InvalidPayloadError, match="payload field 'to' is missing"):
        send.decode('{"too": "a@b.c"}')
    with pytest.raises(InvalidPayloadError, match="unknown argument 'address'"):
        send.job(address="a@b.c")


def test_structured_payloads_classes_and_each_item_of_a_batch_are_upgraded(app: App) -> None:
    @dataclass
    class Mail:
        to: str

    @app.task(upgrade=_today)
    def send(mail: Mail) -> None: ...

    @app.task(upgrade=_today)
    @dataclass
    class Post:
        to: str

        def run(self) -> None: ...

    @app.task(upgrade=_today, batch=True)
    def send_all(mails: list[Mail]) -> None: ...

    old = '{"address": "a@b.c"}'
    assert send.decode(old).kwargs == {"mail": Mail("a@b.c")}
    assert app.tasks["post"].decode(old).args == (Post("a@b.c"),)
    assert send_all.decode(f'[{old}, {{"to": "d@e.f"}}]').kwargs == {"mails": [Mail("a@b.c"), Mail("d@e.f")]}


def test_an_upgrade_that_returns_no_payload_is_told_so(app: App) -> None:
    send = app.task(lambda to: None, identifier="send", upgrade=lambda payload: payload.update(to="x"))

    with pytest.raises(InvalidPayloadError, match="upgrade returned NoneType, not a mapping; return the payload"):
        send.decode("{}")


def test_an_upgrade_that_returns_what_json_cannot_hold_is_named_and_nothing_is_said_of_adding(app: App) -> None:
    send = app.task(lambda to: None, identifier="send", upgrade=lambda payload: {"to": object()})

    for payload in ("{}", "[{}]"):
        with pytest.raises(InvalidPayloadError, match=r"^upgrade returned a value that no payload .* object.* JSON$"):
            send.decode(payload)


def test_tasks_are_chosen_by_any_of_their_names_and_a_misspelled_one_is_named(app: App) -> None:
    for identifier, aliases in (("send", ["mail"]), ("resize", []), ("charge", ["bill"])):
        app.task(lambda: None, identifier=identifier, aliases=aliases)

    def chosen(names: list[str] | None, *without: str) -> list[str]:
        return app.registry.only(names, without=without).names

    assert chosen(["mail", "resize"]) == ["mail", "resize", "send"]
    assert chosen(None, "bill") == ["mail", "resize", "send"]
    assert chosen(["send"], "mail") == []
    for names, without in ((["sned"], []), (None, ["sned"])):
        with pytest.raises(UnknownTaskError, match=r"no task 'sned' is defined here \(did you mean 'send'\?\)"):
            chosen(names, *without)
