"""Tasks that another process can find, and those that it cannot."""

from __future__ import annotations

import pickle

import pytest

from ferryman import App
from ferryman.errors import TaskError
from ferryman.worker.running.children.orders import ChildOrder, TaskPlace
from tests.worker.children import tasks
from tests.worker.children.orders import job_of, order_for


def test_an_order_survives_the_way_to_another_process() -> None:
    order = order_for(tasks.add, a=1, b=2)
    assert pickle.loads(pickle.dumps(order)) == order


def test_a_task_is_found_by_the_name_that_it_has_in_its_module() -> None:
    assert str(TaskPlace.of(tasks.app.tasks["multiply"])) == "tests.worker.children.tasks.Multiply"


def test_a_task_inside_a_function_is_refused_before_it_runs() -> None:
    @App().task
    def hidden() -> None: ...

    with pytest.raises(TaskError, match=r"task 'hidden' cannot run in a child process: .* top level of a module"):
        ChildOrder.of(hidden, job_of("hidden", "{}"), "worker-1")


def test_a_task_whose_name_was_given_to_something_else_is_refused() -> None:
    def add() -> None: ...

    add.__module__, add.__qualname__ = tasks.__name__, "add"
    with pytest.raises(TaskError, match="under its own name"):
        TaskPlace.of(App().task(add))
