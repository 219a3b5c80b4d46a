"""Claims: jobs that a worker owns for now, and the rows they come from."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
import psycopg

from ferryman.jobs import Job, JobState
from ferryman.recovery.crashes import ALONE_FLAG, CRASHED_FLAG, SUSPECT_FLAG

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ferryman.database.steps import Row

_ABOUT = ("token", "is_window_full", "next_due_in", "known_tasks", "took_all", "done", "job_ids")
"""The columns of the first row: a token, all that `ClaimReply` has, and the ids of the jobs in order."""
_NEEDED = ("id", "task_id", "payload", "job_queue_id")
"""The columns that are read of each job at once."""
LARGE = 1_000_000
"""Rows whose payloads have more characters than this in all are kept one by one, each while its job runs."""
Owner: TypeAlias = "tuple[str | None, int | None]"
"""The worker that has locked a job, and its token."""
EPOCH = datetime.fromtimestamp(0, UTC)
_CRASH_FLAGS = frozenset({CRASHED_FLAG, SUSPECT_FLAG, ALONE_FLAG})


class Claim(msgspec.Struct, gc=False, eq=False):
    """A job that this worker owns until it is settled or lost. Rows come from `claim_jobs.sql`.

    Only `later_tokens` changes while it is held.
    """

    job_id: int
    task_id: int
    payload_json: str
    queue_id: int | None
    """The named queue that the claim holds."""
    token: int
    """When it was claimed, in microseconds: with the worker's id, the fence of every settlement.

    The lock of a long job is renewed. After a renewal the row has one of the tokens in `keys`; only the database knows
    which.
    """
    worker_id: str
    """The worker's id at the claim; it may have another since."""
    rows: Any
    """All rows of the statement, as they arrived: a column is decoded only when it is read."""
    place: int
    """The index of the job's own row in `rows`."""
    later_tokens: tuple[int, ...] = ()
    """Tokens that the database was asked to give it since; see `ferryman.worker.claiming.renewal`."""
    crash_flags: tuple[str, ...] = ()
    """The job's flags that are about crashes; see `ferryman.recovery.crashes`."""

    @property
    def is_suspect(self) -> bool:
        """True if the job was running when a worker died. A worker runs suspects in a quarter of its slots."""
        return SUSPECT_FLAG in self.crash_flags

    @property
    def runs_alone(self) -> bool:
        """True if the job must run while its worker runs nothing else."""
        return ALONE_FLAG in self.crash_flags

    @property
    def attempts(self) -> int:
        """The number of this attempt, from 1 on."""
        return int(self.rows.value(self.place, "attempts"))

    @property
    def max_attempts(self) -> int:
        """How many attempts the job may have."""
        return int(self.rows.value(self.place, "max_attempts"))

    @property
    def queue_name(self) -> str | None:
        """The name of the job's queue, if it has one."""
        if self.queue_id is None:
            return None
        name: str | None = self.rows.value(self.place, "queue_name")
        return name

    @property
    def last_error(self) -> str | None:
        """The error of the attempt before, if it failed."""
        error: str | None = self.rows.value(self.place, "last_error")
        return error

    @property
    def key(self) -> tuple[int, int, int]:
        """Job, token and queue (0: none), as settlements name a claim."""
        return self.job_id, self.token, self.queue_id or 0

    @property
    def keys(self) -> list[tuple[int, int, int]]:
        """The key for each token that the claim may have by now. No other claim ever has any of them."""
        job_id, token, queue_id = self.key
        return [(job_id, each, queue_id) for each in (token, *self.later_tokens)]

    def is_of(self, owner: Owner | None) -> bool:
        """True if the job is locked by this claim."""
        return owner is not None and owner[0] == self.worker_id and owner[1] in (self.token, *self.later_tokens)

    def job(self, identifier: str) -> Job:
        """The job as it stands while the claim holds."""
        get = partial(self.rows.value, self.place)
        return Job(
            id=self.job_id,
            task_identifier=identifier,
            payload_json=self.payload_json,
            queue_name=get("queue_name"),
            priority=get("priority"),
            run_at=get("run_at"),
            attempts=get("attempts"),
            max_attempts=get("max_attempts"),
            last_error=get("last_error"),
            created_at=get("created_at"),
            updated_at=get("updated_at"),
            key=get("key"),
            locked_at=EPOCH + timedelta(microseconds=self.token),
            locked_by=self.worker_id,
            revision=get("revision"),
            flags=tuple(sorted(get("flags") or ())),
            state=JobState.RUNNING,
        )


class Claimed(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one call of `Claimer.claim`."""

    claims: Sequence[Claim]
    is_short: bool
    """True if there may be due jobs beyond those that the claim looked at."""
    left_nothing: bool
    """True if the claim took every due job. The worker can sleep until the next job is due or announced."""
    next_due_in: float | None
    """Seconds until the next claim may find a job; None if that is not known."""


class ClaimReply(msgspec.Struct, frozen=True):
    """The answer of one claim statement."""

    claims: Sequence[Claim]
    is_window_full: bool
    """True if more due jobs may lie beyond those that were looked at."""
    next_due_in: float | None
    """Seconds until the next job is due, as far as that was looked at: when nothing could be claimed, at least."""
    known_tasks: int | None
    """How many of our tasks the database knows, when nothing could be claimed."""
    took_all: bool
    """True if it is known that no other job is due."""
    done: Sequence[int] | None
    """The ids of the finished jobs that the statement deleted; None for all of them."""


def reply_from_rows(rows: Any, worker_id: str) -> ClaimReply:
    """Read the reply to a claim: the claims, in the order in which they run, and what the header says.

    rows: read by column name: `LazyRows` or `NamedRows`
    """
    token, is_window_full, next_due_in, known_tasks, took_all, done, job_ids = (rows.value(0, name) for name in _ABOUT)
    needed = [rows.column(name) for name in _NEEDED]
    ids, _, payloads, _ = needed
    claims = [
        Claim(job_id, task_id, payload_json, queue_id, token, worker_id, rows, place)
        for place, (job_id, task_id, payload_json, queue_id) in enumerate(zip(*needed, strict=True))
        if place > 0
    ]
    flags = rows.column("flags")
    if any(flags):
        for claim in claims:
            claim.crash_flags = tuple(flag for flag in flags[claim.place] or () if flag in _CRASH_FLAGS)
    if ids[1:] != job_ids:
        order = {job_id: place for place, job_id in enumerate(job_ids)}
        claims.sort(key=lambda claim: order[claim.job_id])
    if sum(map(len, payloads[1:])) > LARGE:
        for claim in claims:
            _keep_own_row(claim)
    return ClaimReply(claims, is_window_full, next_due_in, known_tasks, bool(took_all), done)


def _keep_own_row(claim: Claim) -> None:
    """Drop the other rows of the reply, which may be large, and keep the claim's own."""
    with suppress(psycopg.DataError):  # a row that cannot be decoded fails later, if it is read
        claim.rows, claim.place = claim.rows.only(claim.place), 0


def task_ids(rows: Sequence[Row]) -> Mapping[int, str]:
    """Identifiers by number, from `register_tasks.sql`."""
    return {int(number): str(identifier) for number, identifier in rows}
