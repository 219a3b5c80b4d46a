"""The methods of both clients, as `help()`, `inspect` and editors see them at run time."""

from __future__ import annotations

import inspect
import pydoc
import re
from typing import TYPE_CHECKING, Any

import pytest

from ferryman import Client, SyncClient
from ferryman.worker.options import WorkerChoices, WorkerOptions

if TYPE_CHECKING:
    from collections.abc import Callable

CLIENTS = [Client("postgresql://nowhere"), SyncClient("postgresql://nowhere")]
OWNERS = [*CLIENTS, *(client.schedules for client in CLIENTS)]


def _methods(owner: object) -> dict[str, Callable[..., Any]]:
    names = (name for name in dir(type(owner)) if not name.startswith("_"))
    return {name: getattr(owner, name) for name in names if inspect.isfunction(getattr(type(owner), name))}


@pytest.mark.parametrize(
    ("method", "name"),
    [
        pytest.param(method, name, id=f"{type(owner).__name__}.{name}")
        for owner in OWNERS
        for name, method in _methods(owner).items()
    ],
)
def test_a_method_has_its_name_a_docstring_and_the_parameters_of_its_operation(
    method: Callable[..., Any], name: str
) -> None:
    signature = inspect.signature(method)

    assert method.__name__ == method.__qualname__.split(".")[-1] == name
    assert inspect.getdoc(method)
    assert not {"core", "_core", "self", "args", "kwargs"} & {*signature.parameters}
    assert "Steps" not in str(signature.return_annotation)


@pytest.mark.parametrize("client", CLIENTS)
def test_add_job_says_what_it_takes_and_returns(client: Any) -> None:
    assert str(inspect.signature(client.add_job)).replace("'", "") == (
        "(job: NewJob | TaskObject, spec: JobSpec | None = None, *, notify: bool = True, using: Any = None) -> Job"
    )
    assert client.add_job.__doc__.startswith("Add a job:")
    assert "add_job(self, job:" in pydoc.render_doc(type(client), renderer=pydoc.plaintext)
    assert "notify: False adds the job without" in pydoc.render_doc(client.add_job, renderer=pydoc.plaintext)


def test_both_clients_have_the_same_methods_and_only_those_of_one_are_awaited() -> None:
    for of_async, of_blocking in (CLIENTS, OWNERS[2:]):
        awaited, blocking = _methods(of_async), _methods(of_blocking)
        assert awaited.keys() == blocking.keys()
        assert all(map(inspect.iscoroutinefunction, awaited.values()))
        assert not any(map(inspect.iscoroutinefunction, blocking.values()))


def test_a_wrong_argument_is_refused_by_the_name_of_the_method(database: str) -> None:
    with (
        SyncClient(database) as client,
        pytest.raises(TypeError, match=re.escape("add_job() got an unexpected keyword argument 'usng'")),
    ):
        client.add_job(object(), usng=None)  # type: ignore[call-arg]


def test_type_checkers_are_shown_every_worker_option_with_its_type() -> None:
    options = {name: field.type for name, field in vars(WorkerOptions)["__dataclass_fields__"].items()}
    shown = {name: each.__forward_arg__ for name, each in WorkerChoices.__annotations__.items()}

    assert shown == {name: re.sub(r"^InitVar\[(.*)\]$", r"\1", kind) for name, kind in options.items()}
