"""Batch jobs: one job whose payload is a list of items."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from ferryman import App, JobSpec, WorkerContext
from ferryman.errors import InvalidPayloadError

app = App()


@dataclass
class Row:
    id: int


@app.task(max_attempts=2)
async def import_rows(ctx: WorkerContext, rows: list[Row]) -> None: ...


@app.task
def add_up(numbers: Sequence[int]) -> None: ...


@app.task
def one_row(row: Row) -> None: ...


@app.task
def two_lists(a: list[int], b: list[int]) -> None: ...


def test_the_payload_of_a_batch_job_is_the_list_of_its_items() -> None:
    job = import_rows.batch_job(Row(n) for n in (1, 2))

    assert json.loads(job.payload_json) == [{"id": 1}, {"id": 2}]
    assert job.spec == JobSpec(max_attempts=2)


def test_the_list_goes_to_the_one_parameter() -> None:
    call = import_rows.decode('[{"id":1},{"id":2}]', "the context")

    assert call.kwargs == {"rows": [Row(1), Row(2)], "ctx": "the context"}
    assert add_up.decode(" [1]").kwargs == {"numbers": [1]}


def test_the_same_task_takes_an_ordinary_job_too() -> None:
    job = import_rows.job(rows=[Row(1)])

    assert job.payload_json == '{"rows":[{"id":1}]}'
    assert import_rows.decode(job.payload_json).kwargs["rows"] == [Row(1)]


def test_an_empty_batch_is_refused() -> None:
    signature = r"import_rows\(rows: list\[Row\]\)"

    with pytest.raises(InvalidPayloadError, match=f"^{signature}: batch job payload must contain at least one item; "):
        import_rows.batch_job([])


def test_each_item_is_checked_and_named_by_its_number() -> None:
    with pytest.raises(InvalidPayloadError, match=r"argument 'rows\[1\].id' expected int, got str"):
        import_rows.batch_job([Row(1), Row("2")])


def test_each_item_of_a_stored_batch_is_checked_too() -> None:
    with pytest.raises(InvalidPayloadError, match=r"task 'import_rows': payload field 'rows\[0\].id' expected int"):
        import_rows.decode('[{"id":"1"}]')


@pytest.mark.parametrize("task", [one_row, two_lists])
def test_a_task_without_one_list_parameter_takes_no_batches(task: Any) -> None:
    with pytest.raises(InvalidPayloadError, match="a batch job needs a task whose only parameter is a list"):
        task.batch_job([Row(1)])
