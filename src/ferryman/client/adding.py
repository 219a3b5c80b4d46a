"""Adds jobs: one, many, or one that holds many items."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from ferryman.client.insertion import add_keyed, dedupe, insert_many, insert_one, slices
from ferryman.database.steps import Decide, Transaction, repeated
from ferryman.errors import InvalidJobError, JobScheduleFailedError, JobScheduleSkippedError
from ferryman.hooks import BeforeJobSchedule, Continue, Skip
from ferryman.jobs import JobKeyMode, JobSpec, NewJob, RawJobSpec
from ferryman.tasks.forms import is_null
from ferryman.traces import Untraced

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ferryman.client.base import Core
    from ferryman.database.steps import Steps
    from ferryman.jobs import Job, TaskObject
    from ferryman.tasks import Task
    from ferryman.traces import Sending


def add_job(
    core: Core, job: NewJob | TaskObject, spec: JobSpec | None = None, *, notify: bool = True, using: Any = None
) -> Steps[Job]:
    """Add a job: `send_email.job(to=…)`, or an instance of a task class.

    spec: how to schedule it; the task's defaults fill in what it leaves out, then the database's
    notify: False adds the job without waking idle workers, which then find it by polling. A job with a key always wakes
        them, because Graphile's function does
    using: your connection or session; the job is then part of your transaction
    """
    asked = yield from _asked(core, core.new_job(job, spec))
    added = yield from _send_alone(core, asked, notify=notify, using=using)
    return added


def add_raw_job(
    core: Core,
    identifier: str,
    payload: object = None,
    spec: JobSpec | None = None,
    *,
    notify: bool = True,
    using: Any = None,
) -> Steps[Job]:
    """Add a job by its task's identifier, also for other programs' tasks. None is stored as `{}`, as in Node."""
    asked = yield from _asked(core, core.raw_job(identifier, payload, spec))
    added = yield from _send_alone(core, asked, notify=notify, using=using)
    return added


def add_jobs(
    core: Core,
    jobs: Iterable[NewJob | TaskObject | tuple[NewJob | TaskObject, JobSpec | None]],
    *,
    notify: bool = True,
    using: Any = None,
) -> Steps[list[Job]]:
    """Add many jobs at once: all or none.

    Each item is what `add_job` takes, or a pair of that and a `JobSpec`. The result has the order of the input. If
    several jobs have the same key, the last one wins, as if they had been added one by one. If one job asks for
    `PRESERVE_RUN_AT`, it applies to every job in the call; `UNSAFE_DEDUPE` is refused.
    """
    asked = yield from _all_asked(core, core.new_jobs(jobs))
    added = yield from _send_many(core, asked, notify=notify, using=using)
    return added


def add_raw_jobs(core: Core, jobs: Iterable[RawJobSpec], *, notify: bool = True, using: Any = None) -> Steps[list[Job]]:
    """Add many jobs by their tasks' identifiers; the rules are those of `add_jobs`."""
    made = [core.raw_job(job.identifier, job.payload, job.spec) for job in jobs]
    asked = yield from _all_asked(core, made)
    added = yield from _send_many(core, asked, notify=notify, using=using)
    return added


def add_batch_job(
    core: Core,
    task: Task[..., Any] | str,
    items: Iterable[object],
    spec: JobSpec | None = None,
    *,
    notify: bool = True,
    using: Any = None,
) -> Steps[Job]:
    """Add one job whose payload is the list of `items`.

    With a key, items accumulate: while the job waits, adding again with the same key appends to its list.
    """
    listed = list(items)
    if not listed:
        raise InvalidJobError("batch job payload must contain at least one item; nothing was added")
    job = core.raw_job(task, listed, spec) if isinstance(task, str) else core.new_job(task.batch_job(listed), spec)
    asked = yield from _asked(core, job)
    if not asked.payload_json.startswith("[") or asked.payload_json == "[]":
        raise InvalidJobError(
            "a BeforeJobSchedule hook must return a JSON array with at least one item for a batch job; nothing was "
            "added"
        )
    added = yield from _send_one(core, asked, notify=notify, using=using)
    return added


def _send_one(core: Core, job: NewJob, *, notify: bool, using: Any) -> Steps[Job]:
    """Add a job as part of the current trace."""
    with _sending(core, [job]) as sending:
        added = yield from repeated(partial(_add_one, sending.jobs[0], notify=notify, using=using))
        sending.added(added)
    return added


def _send_alone(core: Core, job: NewJob, *, notify: bool, using: Any) -> Steps[Job]:
    """Like `_send_one`, for a call that does nothing else. Without hooks and traces, the whole call can be repeated."""
    may_repeat_all = core.tracing is None and not core.hooks.wants(BeforeJobSchedule)
    if may_repeat_all:
        return (yield from _add_one(job, notify=notify, using=using))
    return (yield from _send_one(core, job, notify=notify, using=using))


def _send_many(core: Core, jobs: Sequence[NewJob], *, notify: bool, using: Any) -> Steps[list[Job]]:
    """Add jobs as part of the current trace."""
    with _sending(core, jobs) as sending:
        added = yield from repeated(partial(_add_many, sending.jobs, notify=notify, using=using))
    return added


def _sending(core: Core, jobs: Sequence[NewJob]) -> Sending:
    tracing = core.tracing
    return (None if tracing is None else tracing.send(jobs)) or Untraced(jobs)


def _all_asked(core: Core, jobs: Sequence[NewJob]) -> Steps[Sequence[NewJob]]:
    """Ask hooks about each job, and return the jobs as hooks changed them. One refusal refuses all."""
    if not core.hooks.wants(BeforeJobSchedule):
        return jobs
    asked = []
    for job in jobs:
        asked.append((yield from _asked(core, job)))  # noqa: PERF401 - `yield` cannot be in a comprehension
    return asked


def _asked(core: Core, job: NewJob) -> Steps[NewJob]:
    """Ask hooks about a job, and return the job as they changed it.

    They see a copy of the payload. A payload that they return is checked.
    """
    if not core.hooks.wants(BeforeJobSchedule):
        return job
    event = BeforeJobSchedule(identifier=job.identifier, payload=json.loads(job.payload_json), spec=job.spec)
    [(answer,)] = yield Decide(core.hooks, event)
    not_added = f"job for {job.identifier!r} not added"
    match answer:
        case Continue(payload=None) if is_null(job.payload_json):
            return job  # null, and not no payload
        case Continue(payload=payload):
            return core.raw_job(job.identifier, payload, job.spec)
        case Skip():
            raise JobScheduleSkippedError(f"{not_added}: a BeforeJobSchedule hook returned Skip()")
        case refused:
            raise JobScheduleFailedError(f"{not_added}: a BeforeJobSchedule hook refused it: {refused.message}")


def _add_one(job: NewJob, *, notify: bool, using: Any) -> Steps[Job]:
    key = job.spec.job_key
    if key is None:
        added = yield from insert_one(job, notify=notify, using=using)
    elif job.spec.job_key_mode is JobKeyMode.UNSAFE_DEDUPE:
        added = yield from dedupe(job, using=using)
    else:
        preserve = job.spec.job_key_mode is JobKeyMode.PRESERVE_RUN_AT
        added = (yield from add_keyed({key: job}, preserve_run_at=preserve, using=using))[key]
    return added


def _add_many(jobs: Sequence[NewJob], *, notify: bool, using: Any) -> Steps[list[Job]]:
    # Jobs that are added together mostly share one spec, so the rules are checked per spec and not per job.
    specs = {id(job.spec): job.spec for job in jobs}.values()
    if any(spec.job_key_mode is JobKeyMode.UNSAFE_DEDUPE for spec in specs):
        raise InvalidJobError(
            "UNSAFE_DEDUPE job_key_mode is not supported when many jobs are added at once; nothing was added. "
            "Add these jobs one by one with add_job, or use REPLACE or PRESERVE_RUN_AT."
        )
    if all(spec.job_key is None for spec in specs):
        added = yield from _insert_all(slices(jobs), notify=notify, using=using)
        return added

    preserve = any(spec.job_key_mode is JobKeyMode.PRESERVE_RUN_AT for spec in specs)
    plain = slices([job for job in jobs if job.spec.job_key is None])
    keyed = _one_per_key((job for job in jobs if job.spec.job_key is not None), preserve_run_at=preserve)
    if plain or len(keyed) > 1:
        yield Transaction(using)
    in_order = iter((yield from _insert_all(plain, notify=notify, using=using)))
    by_key: dict[str, Job] = {}
    for some in slices([keyed[key] for key in sorted(keyed)]):
        wanted = {str(job.spec.job_key): job for job in some}
        by_key |= yield from add_keyed(wanted, preserve_run_at=preserve, using=using)
    return [next(in_order) if job.spec.job_key is None else by_key[job.spec.job_key] for job in jobs]


def _insert_all(parts: Sequence[Sequence[NewJob]], *, notify: bool, using: Any) -> Steps[list[Job]]:
    if len(parts) > 1:
        yield Transaction(using)
    inserted: list[Job] = []
    for some in parts:
        inserted += yield from insert_many(some, notify=notify, using=using)
    return inserted


def _one_per_key(jobs: Iterable[NewJob], *, preserve_run_at: bool) -> dict[str, NewJob]:
    """Return one job for each key: the job that the key would have if all were added one by one."""
    left: dict[str, NewJob] = {}
    for job in jobs:
        key = str(job.spec.job_key)
        earlier = left.get(key)
        left[key] = job if earlier is None else _succeeded(earlier, job, preserve_run_at=preserve_run_at)
    return left


def _succeeded(earlier: NewJob, later: NewJob, *, preserve_run_at: bool) -> NewJob:
    payload = later.payload_json
    if earlier.payload_json.startswith("[") and payload.startswith("["):
        items = (earlier.payload_json[1:-1], payload[1:-1])
        payload = f"[{','.join(item for item in items if item)}]"
    spec = later.spec
    if preserve_run_at:
        spec = replace(spec, run_at=earlier.spec.run_at, delay=earlier.spec.delay)
    return NewJob(later.identifier, payload, spec)
