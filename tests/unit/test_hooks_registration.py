"""The registration of hooks: what can be registered, in which order, and how registries combine."""

import functools
from collections.abc import AsyncIterator

import pytest

from ferryman.errors import ConfigurationError
from ferryman.hooks import BeforeJobRun, HookRegistry, JobComplete, JobFail, LocalQueueInit, Observer

INIT = LocalQueueInit(worker_id="w1")


@pytest.fixture
def hooks() -> HookRegistry:
    return HookRegistry()


class Noting:
    """A plugin that notes its name at each start of a local queue."""

    def __init__(self, name: str, notes: list[str]) -> None:
        self.name, self.notes = name, notes

    def register(self, hooks: HookRegistry) -> None:
        hooks.on(LocalQueueInit, self.note)

    def note(self, event: LocalQueueInit) -> None:
        self.notes.append(self.name)


def test_a_new_registry_wants_nothing(hooks: HookRegistry) -> None:
    assert hooks.is_empty
    assert not hooks.wants(JobFail)
    assert repr(hooks) == "<HookRegistry: empty>"


def test_only_events_with_a_handler_are_wanted(hooks: HookRegistry) -> None:
    hooks.on(JobFail, print)

    assert hooks.wants(JobFail)
    assert not hooks.wants(JobComplete)
    assert not hooks.is_empty
    assert repr(hooks) == "<HookRegistry: JobFail: 1>"


def test_the_decorator_leaves_the_function_as_it_is(hooks: HookRegistry) -> None:
    def report(event: JobFail) -> None: ...

    assert hooks.on(JobFail)(report) is report
    assert hooks.wants(JobFail)


async def test_handlers_and_plugins_keep_one_order(hooks: HookRegistry) -> None:
    notes: list[str] = []
    hooks.on(LocalQueueInit, lambda _: notes.append("first"))
    hooks.add_plugin(Noting("second", notes))
    hooks.on(LocalQueueInit, lambda _: notes.append("third"))

    await hooks.emit(INIT)

    assert notes == ["first", "second", "third"]


@pytest.mark.parametrize("event", [int, Observer, INIT, "JobFail", None])
def test_only_events_can_be_registered_for(hooks: HookRegistry, event: object) -> None:
    with pytest.raises(ConfigurationError, match="such as JobFail"):
        hooks.on(event, print)  # type: ignore[call-overload]


def test_a_handler_must_be_callable(hooks: HookRegistry) -> None:
    with pytest.raises(ConfigurationError, match="must be a function, not int"):
        hooks.on(JobFail, 3)  # type: ignore[call-overload]


def test_a_handler_must_take_the_event(hooks: HookRegistry) -> None:
    def two(event: JobFail, other: int) -> None: ...

    with pytest.raises(ConfigurationError, match=r"JobFail hook .*two must take one argument"):
        hooks.on(JobFail, two)  # type: ignore[arg-type]
    hooks.on(JobFail, functools.partial(two, other=1))


def test_a_handler_that_yields_is_refused_since_nothing_would_run_it(hooks: HookRegistry) -> None:
    async def stream(event: JobFail) -> AsyncIterator[int]:
        yield 1

    with pytest.raises(ConfigurationError, match="contains yield"):
        hooks.on(JobFail, stream)  # type: ignore[arg-type]
    assert hooks.is_empty


@pytest.mark.parametrize("plugin", [Noting, object()])
def test_a_plugin_is_an_object_that_registers(hooks: HookRegistry, plugin: object) -> None:
    with pytest.raises(ConfigurationError, match=r"register\(hooks\)"):
        hooks.add_plugin(plugin)  # type: ignore[arg-type]


async def test_merging_keeps_each_order_and_changes_no_source(hooks: HookRegistry) -> None:
    notes: list[str] = []
    other = HookRegistry()
    hooks.add_plugin(Noting("mine", notes))
    other.add_plugin(Noting("theirs", notes))
    other.on(JobFail, print)

    merged = hooks.merged(other)
    await merged.emit(INIT)

    assert notes == ["mine", "theirs"]
    assert merged.wants(JobFail)
    assert not hooks.wants(JobFail)


async def test_a_registry_that_is_merged_with_itself_tells_nobody_twice(hooks: HookRegistry) -> None:
    notes: list[str] = []
    hooks.add_plugin(Noting("once", notes))

    await hooks.merged(hooks, hooks).emit(INIT)

    assert notes == ["once"]


def test_a_copy_goes_its_own_way(hooks: HookRegistry) -> None:
    hooks.on(JobFail, print)
    copy = hooks.copy()
    copy.on(JobComplete, print)
    hooks.on(BeforeJobRun, lambda _: None)

    assert copy.wants(JobFail)
    assert not hooks.wants(JobComplete)
    assert not copy.wants(BeforeJobRun)


async def test_a_handler_that_is_registered_during_an_event_waits_for_the_next(hooks: HookRegistry) -> None:
    notes: list[str] = []
    hooks.on(LocalQueueInit, lambda _: hooks.add_plugin(Noting("late", notes)))

    await hooks.emit(INIT)
    assert notes == []
    await hooks.emit(INIT)
    assert notes == ["late"]
