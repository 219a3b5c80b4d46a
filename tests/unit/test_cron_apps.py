"""Schedules that hang on the tasks of an application."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from ferryman import App
from ferryman.cron import Cron, Crontab, CrontabFill, CrontabTimer, parse_crontab, parse_timer
from ferryman.errors import CrontabError


@pytest.fixture
def app() -> App:
    return App("postgresql://")


def test_a_task_is_scheduled_by_a_decorator_above_it(app: App) -> None:
    @app.cron("0 8 * * 1-5", fill=CrontabFill.hours(2), payload={"to": "team"}, time_zone="Europe/Paris")
    @app.task(queue_name="mail")
    def report(to: str) -> str:
        return to

    assert report("me") == "me"
    assert app.crontabs == [
        Crontab(
            parse_timer("0 8 * * 1-5"),
            "report",
            fill=CrontabFill.hours(2),
            queue_name="mail",
            payload_json='{"to":"team"}',
            time_zone="Europe/Paris",
        )
    ]


def test_a_task_may_have_several_schedules_with_ids_of_their_own(app: App) -> None:
    @app.cron("0 8 * * *", id="morning")
    @app.cron(CrontabTimer(hours=frozenset({20})), id="evening")
    @app.task
    def report() -> None: ...

    assert {crontab.identifier: crontab.task_identifier for crontab in app.crontabs} == {
        "morning": "report",
        "evening": "report",
    }


def test_two_schedules_with_one_identifier_are_refused(app: App) -> None:
    @app.cron("0 8 * * *")
    @app.task
    def report() -> None: ...

    with pytest.raises(CrontabError, match="two schedules have the identifier 'report'"):
        app.cron("0 9 * * *")(report)
    with pytest.raises(CrontabError, match="two schedules have the identifier 'report'"):
        app.add_crontabs(Cron.every_minute("other"), Cron.every_minute(report))
    assert len(app.crontabs) == 1


def test_a_task_class_is_scheduled_by_its_fields(app: App) -> None:
    @app.cron("0 8 * * *", payload={"path": "a.png"})
    @app.task
    @dataclass
    class Resize:
        path: str

        def run(self) -> None: ...

    assert [(crontab.task_identifier, crontab.payload_json) for crontab in app.crontabs] == [
        ("resize", '{"path":"a.png"}')
    ]


def test_the_pattern_is_checked_where_it_is_written(app: App) -> None:
    with pytest.raises(CrontabError, match="Too large value '24' in hours range"):
        app.cron("0 24 * * *")


def test_a_function_that_is_no_task_yet_is_refused_with_the_right_order(app: App) -> None:
    with pytest.raises(CrontabError, match=r"Put @app\.cron above @app\.task"):

        @app.task
        @app.cron("0 8 * * *")
        def report() -> None: ...


def test_a_payload_is_checked_when_all_is_defined(app: App) -> None:
    @app.cron("0 8 * * *", payload={"image": {"path": "a.png"}, "size": 5})
    @app.task
    def resize(image: Later, size: int) -> None: ...

    assert len(app.crontabs) == 1

    @app.cron("0 9 * * *")
    @app.task
    def rotate(image: Later) -> None: ...

    with pytest.raises(CrontabError, match=r"schedule 'rotate': task 'rotate': .* is missing"):
        _ = app.crontabs


@dataclass
class Later:
    path: str


def test_schedules_from_text_and_from_builders_are_added(app: App) -> None:
    app.add_crontabs(Cron.every_minute("a"), *parse_crontab("0 4 * * * b\n0 5 * * * c"))

    assert [crontab.identifier for crontab in app.crontabs] == ["a", "b", "c"]


def test_including_an_application_takes_its_schedules_over_once(app: App) -> None:
    library = App("postgresql://")

    @library.cron("0 3 * * *")
    @library.task
    def clean() -> None: ...

    app.include(library)
    app.include(library)

    assert app.crontabs == library.crontabs
    assert "clean" in app.tasks
