"""Hostile names, keys, payloads and schema names: a clear refusal or an exact round trip, never anything else."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg import sql

from ferryman import Job, JobKeyMode, JobSpec, RawJobSpec, RescheduleJobOptions, SyncClient
from ferryman.database.identifiers import SchemaName
from ferryman.errors import ConfigurationError, FerrymanError, InvalidJobError

if TYPE_CHECKING:
    from collections.abc import Callable

settings.register_profile(
    "database", deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True
)
database_settings = settings(settings.get_profile("database"), max_examples=60)

SPICES = [
    "'; drop schema graphile_worker cascade; --",
    "%s",
    "%(x)s",
    "$1",
    ":schema",
    "\\",
    '"',
    "{}",
    "\0",
    "\ud800",
    "🚢",
    "\u202e",
    "\n",
    "' || '",
]
nasty_text = st.one_of(
    st.text(st.characters(), max_size=200),
    st.lists(st.sampled_from(SPICES), min_size=1, max_size=4).map("".join),
    st.integers(1, 600).map(lambda length: "x" * length),
)
anything = st.one_of(st.none(), st.integers(), st.floats(), st.booleans(), nasty_text, st.binary(max_size=5))
nasty_json: st.SearchStrategy[Any] = st.recursive(
    anything,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(nasty_text, inner, max_size=4), st.tuples(inner, inner)
    ),
    max_leaves=12,
)


def _is_storable(text: str, longest: int) -> bool:
    return 1 <= len(text) <= longest and "\0" not in text and not any("\ud800" <= c <= "\udfff" for c in text)


@database_settings
@given(identifier=nasty_text, queue_name=nasty_text, key=nasty_text, flag=nasty_text, mode=st.sampled_from(JobKeyMode))
def test_names_are_stored_exactly_or_refused(
    sync_client: SyncClient, *, identifier: str, queue_name: str, key: str, flag: str, mode: JobKeyMode
) -> None:
    fits = (
        _is_storable(identifier, 128)
        and _is_storable(queue_name, 128)
        and _is_storable(key, 512)
        and _is_storable(flag, 128)
    )
    try:
        plain_spec = JobSpec(queue_name=queue_name, flags=[flag])
        keyed_spec = JobSpec(queue_name=queue_name, flags=[flag], job_key=key, job_key_mode=mode)
        plain = sync_client.add_raw_job(identifier, {}, plain_spec)
        keyed = sync_client.add_raw_job(identifier, {}, keyed_spec)
        [bulk] = sync_client.add_raw_jobs([RawJobSpec(identifier, {}, plain_spec)])
    except InvalidJobError:
        assert not fits
        return
    assert fits
    for job in (plain, keyed, bulk):
        stored = sync_client.get_job(job.id)
        assert stored == job
        assert (job.task_identifier, job.queue_name, job.flags) == (identifier, queue_name, (flag,))
    assert keyed.key == key
    assert keyed.id in [job.id for job in _all(sync_client, task=identifier, queue_name=queue_name, job_key=key)]
    assert sync_client.remove_job(key) is not None


@database_settings
@given(payload=nasty_json)
def test_payloads_are_stored_exactly_or_refused(sync_client: SyncClient, payload: Any) -> None:
    calls: list[Callable[[], Job]] = [
        lambda: sync_client.add_raw_job("x", payload),
        lambda: sync_client.add_raw_job("x", payload, JobSpec(job_key="k")),
        lambda: sync_client.add_raw_jobs([RawJobSpec("x", payload)])[0],
    ]
    for call in calls:
        try:
            job = call()
        except InvalidJobError:
            assert not _is_json(payload)
            continue
        stored = sync_client.get_job(job.id)
        assert stored is not None
        assert stored.payload == _as_json(payload)
        sync_client.complete_jobs([job.id])


@database_settings
@given(
    ids=st.lists(anything, max_size=3), reason=st.one_of(st.none(), nasty_text), workers=st.lists(anything, max_size=3)
)
def test_management_calls_refuse_or_obey(
    sync_client: SyncClient, ids: list[Any], reason: str | None, workers: list[Any]
) -> None:
    for call in (
        lambda: sync_client.complete_jobs(ids),
        lambda: sync_client.permanently_fail_jobs(ids, reason),
        lambda: sync_client.reschedule_jobs(ids, RescheduleJobOptions(attempts=0)),
        lambda: sync_client.force_unlock_workers(workers),
        lambda: sync_client.get_job(ids[0] if ids else None),
        lambda: sync_client.remove_job(reason),
        lambda: sync_client.list_jobs(task=reason, flags=workers, after=ids[0] if ids else None),
        lambda: sync_client.cleanup(workers),
        lambda: sync_client.cleanup(["GC_JOB_QUEUES"], keep_task_identifiers=workers),
    ):
        with contextlib.suppress(InvalidJobError):
            call()


@settings(database_settings, max_examples=12)
@given(name=nasty_text)
def test_any_schema_name_works_or_is_refused(empty_database: str, name: str) -> None:
    try:
        SchemaName(name)
    except ConfigurationError:
        return
    with SyncClient(empty_database, schema=name) as client:
        client.migrate()
        job = client.add_raw_job("x", {"a": 1}, JobSpec(queue_name="q", job_key="k"))
        assert client.list_jobs().jobs == [job]
    with psycopg.connect(empty_database, autocommit=True) as connection:
        found = connection.execute("select count(*) from pg_namespace where nspname = %s", [name]).fetchone()
        assert found == (1,)
        connection.execute(sql.SQL("drop schema {} cascade").format(sql.Identifier(name)))


@pytest.mark.parametrize("name", ["", "pg_mine", "x" * 64, "é" * 32, "a\0b", "\ud800", None, 7])
def test_schema_names_that_postgresql_cannot_hold_are_refused(name: Any) -> None:
    with pytest.raises(FerrymanError):
        SchemaName(name)


@pytest.mark.parametrize(
    "name", ["x" * 63, 'q"uote', "semi;colon", "per%cent", "co:lon", "back\\slash", "UPPER", "select", "🚢"]
)
def test_odd_schema_names_work_through_every_kind_of_statement(empty_database: str, name: str) -> None:
    with SyncClient(empty_database, schema=name) as client:
        client.migrate()
        [job, _] = client.add_raw_jobs([RawJobSpec("x", 1), RawJobSpec("x", 2, JobSpec(job_key="k"))])
        assert client.counts().ready == 2
        with psycopg.connect(empty_database) as connection:
            assert client.get_job(job.id, using=connection) == job
        client.cleanup(["GC_JOB_QUEUES", "GC_TASK_IDENTIFIERS", "DELETE_PERMAFAILED_JOBS"])


def _all(client: SyncClient, **filters: Any) -> list[Job]:
    return client.list_jobs(**filters).jobs


def _is_json(value: Any) -> bool:
    match value:
        case str():
            return "\0" not in value and not any("\ud800" <= c <= "\udfff" for c in value)
        case float():
            return value == value and abs(value) != float("inf")  # noqa: PLR0124 - not equal to itself means NaN
        case list() | tuple():
            return all(map(_is_json, value))
        case dict():
            return all(_is_json(key) and _is_json(item) for key, item in value.items())
        case bytes():
            return False
        case _:
            return True


def _as_json(value: Any) -> Any:
    """What must come back: tuples are lists, and a payload of None is an empty object."""
    return {} if value is None else _with_lists(value)


def _with_lists(value: Any) -> Any:
    match value:
        case list() | tuple():
            return [_with_lists(item) for item in value]
        case dict():
            return {key: _with_lists(item) for key, item in value.items()}
        case _:
            return value
