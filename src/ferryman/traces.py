"""Where a job comes from: the key `_trace` of its payload, and the seam through which a tracing library sees jobs.

The key has the shape that the Rust worker writes. Payloads that are no JSON objects have no place for it. Nothing here
imports a tracing library: `ferryman.observe` does, when the program has loaded one.
"""

from __future__ import annotations

import re
import sys
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, Self

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager
    from datetime import datetime

    from ferryman.jobs import Job, NewJob

TRACE_KEY = "_trace"
TRACEPARENT_KEY = "traceparent"
"""Programs that know W3C's rules and not ours put this beside the keys of the payload."""
_MARK = f'"{TRACE_KEY}"'
_LIBRARY = "opentelemetry.trace"
MOST_ITEMS = 128
"""Traces of the items of a batch that are read; tracing libraries keep no more links than that."""

_ID, _SPAN = "[0-9a-f]{32}", "[0-9a-f]{16}"
_OURS = re.compile(
    rf'\{{"_trace":\{{"flags":(25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d),'
    rf'"trace_id":"(?!0{{32}})({_ID})","span_id":"(?!0{{16}})({_SPAN})"\}},?'
)
"""A payload as `with_trace` writes it: the usual one need not be parsed to find its trace."""
_TRACEPARENT = re.compile(rf"(?!ff|00.{{53}}-)[0-9a-f]{{2}}-({_ID})-({_SPAN})-([0-9a-f]{{2}})(?:-.*)?", re.DOTALL)
_HEX = re.compile(rf"{_ID}{_SPAN}", re.IGNORECASE)
_MOST_FLAGS = 255


class Trace(msgspec.Struct, frozen=True):
    """A span, by its numbers. Neither of the ids is 0."""

    trace_id: int
    span_id: int
    flags: int = 0

    def __str__(self) -> str:
        return f"00-{self.trace_id:032x}-{self.span_id:016x}-{self.flags:02x}"


class Origin(msgspec.Struct, frozen=True):
    """What the payload of a job says about spans.

    producers: those that added the job, or the items of a batch
    died: the attempt before, if its worker died
    """

    producers: Sequence[Trace] = ()
    died: Trace | None = None


NO_ORIGIN = Origin()

_raw_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
_items = msgspec.json.Decoder(list[msgspec.Raw])


def with_trace(payload_json: str, trace: Trace) -> str:
    """The payload with this trace instead of any other. A payload that is no object stays as it is."""
    value = f'{{"flags":{trace.flags},"trace_id":"{trace.trace_id:032x}","span_id":"{trace.span_id:016x}"}}'
    return _with_key(payload_json, value)


def with_died(payload_json: str, died: Trace) -> str:
    """The payload with the attempt that died, beside the trace that it has. Only objects have a place for it."""
    fields = _fields(payload_json).get(TRACE_KEY, msgspec.Raw(b"{}"))
    known = _decoded(fields)
    members = known if isinstance(known, dict) else {"traceparent": known}
    return _with_key(payload_json, msgspec.json.encode({**members, "died": str(died)}).decode())


def with_trace_of(payload_json: str, earlier_json: str) -> str:
    """The payload with the trace of the one that it replaces."""
    if _MARK not in earlier_json:
        return payload_json
    value = _fields(earlier_json).get(TRACE_KEY)
    return payload_json if value is None else _with_key(payload_json, bytes(value).decode())


def without_trace(payload_json: str) -> str:
    """The payload as its task takes it: without the key, in the items of a batch too."""
    if _MARK not in payload_json:
        return payload_json
    ours = _OURS.match(payload_json)
    if ours is not None:
        return "{" + payload_json[ours.end() :]
    if payload_json.lstrip().startswith("["):
        return _batch_without_trace(payload_json)
    fields = _fields(payload_json)
    if fields.pop(TRACE_KEY, None) is None:
        return payload_json
    return msgspec.json.encode(fields).decode()


def origin_of(payload_json: str) -> Origin:
    """What the payload says about spans. What cannot be read counts for nothing, whoever wrote it."""
    if _MARK not in payload_json and '"traceparent"' not in payload_json:
        return NO_ORIGIN
    ours = _OURS.match(payload_json)
    if ours is not None:
        return Origin((Trace(int(ours[2], 16), int(ours[3], 16), int(ours[1])),))
    if payload_json.lstrip().startswith("["):
        found = (origin_of(item) for item in _items_of(payload_json)[:MOST_ITEMS])
        return Origin(tuple(dict.fromkeys(trace for origin in found for trace in origin.producers)))
    fields = _fields(payload_json)
    told = _decoded(fields.get(TRACE_KEY, msgspec.Raw(b"null")))
    producer = _producer(told) or parse_traceparent(_decoded(fields.get(TRACEPARENT_KEY, msgspec.Raw(b"null"))))
    died = parse_traceparent(told.get("died")) if isinstance(told, dict) else None
    return Origin(() if producer is None else (producer,), died)


def parse_traceparent(text: object) -> Trace | None:
    """The span that a W3C traceparent names; None if it names none."""
    found = _TRACEPARENT.fullmatch(text) if isinstance(text, str) else None
    return None if found is None else _trace(found[1], found[2], int(found[3], 16))


class Sending(Protocol):
    """Jobs while they are added: a block, which ends when the database has them or has refused them."""

    jobs: Sequence[NewJob]
    """What to add: the jobs that were given, with their trace."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: object) -> None: ...

    def added(self, job: Job) -> None:
        """Learn the id of the only job."""


class Processing(Protocol):
    """An attempt while it runs."""

    def end(self, outcome: str, error: str | None = None) -> None:
        """End with this word.

        error: what the attempt failed with: a type, a message, and perhaps a traceback
        """


class Attempted(Protocol):
    """An attempt at a job, as far as a trace is concerned. Its row may be decoded only as far as it is asked."""

    @property
    def job_id(self) -> int:
        """Its job."""

    @property
    def payload_json(self) -> str:
        """The payload, with the key."""

    @property
    def attempts(self) -> int:
        """Which attempt it is, from 1 on."""

    @property
    def max_attempts(self) -> int:
        """How many attempts its job may have."""

    @property
    def worker_id(self) -> str:
        """Who makes it."""

    @property
    def queue_name(self) -> str | None:
        """The named queue of its job."""


class Tracing(Protocol):
    """What a tracing library is told. Nothing here may fail a job: whoever calls is ready for any exception."""

    def send(self, jobs: Sequence[NewJob]) -> Sending | None:
        """Watch jobs being added; None if no trace is under way."""

    def processing(self, identifier: str) -> Callable[[Attempted], Processing]:
        """How to watch attempts of this task; what they have in common is made once."""

    def died(self, identifier: str, attempted: Attempted, started_at: datetime) -> tuple[Trace | None, Processing]:
        """An attempt whose worker died, and which somebody else must therefore tell of."""

    def current(self) -> str | None:
        """The span that is current, as a W3C traceparent; None if there is none."""

    def resume(self, traceparent: str) -> AbstractContextManager[object]:
        """Make a span of another process the current one, for as long as the block lasts."""


class Untraced(msgspec.Struct):
    """Jobs that are added while no trace is under way."""

    jobs: Sequence[Any]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None: ...

    def added(self, job: Job) -> None:
        """Nobody wants to know."""


def find_tracing(*, is_wanted: bool) -> Tracing | None:
    """What tells the tracing library of this program about jobs; None if the program has loaded no such library."""
    return _load() if is_wanted and _LIBRARY in sys.modules else None


def load_tracing() -> Tracing | None:
    """The same for a process whose worker uses one; None if it is not installed here."""
    try:
        import_module(_LIBRARY)
    except ImportError:
        return None
    return _load()


@cache
def _load() -> Tracing:
    # By name: it is built on top of us, and a program without a tracing library never has it.
    tracing: Tracing = import_module("ferryman.observe.tracing").TRACING
    return tracing


def _with_key(payload_json: str, value: str) -> str:
    rest = payload_json.strip()
    if not rest.startswith("{"):
        return payload_json
    if _MARK in rest:
        fields = _fields(rest)
        if not fields:
            return payload_json  # it cannot be read, so it cannot be changed
        fields.pop(TRACE_KEY, None)
        rest = msgspec.json.encode(fields).decode()
    rest = rest[1:].lstrip()
    return f'{{"{TRACE_KEY}":{value}{"" if rest == "}" else ","}{rest}'


def _batch_without_trace(payload_json: str) -> str:
    items = _items_of(payload_json)
    return f"[{','.join(without_trace(item) for item in items)}]" if items else payload_json


def _items_of(payload_json: str) -> list[str]:
    try:
        return [bytes(item).decode() for item in _items.decode(payload_json)]
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return []


def _fields(payload_json: str) -> dict[str, msgspec.Raw]:
    """The keys of an object; none if it is something else."""
    try:
        return _raw_fields.decode(payload_json)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return {}


def _decoded(value: msgspec.Raw) -> Any:
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return None


def _producer(told: Any) -> Trace | None:
    if not isinstance(told, dict):
        return parse_traceparent(told)
    flags, trace_id, span_id = told.get("flags"), told.get("trace_id"), told.get("span_id")
    if isinstance(flags, int) and isinstance(trace_id, str) and isinstance(span_id, str):
        return _trace(trace_id, span_id, flags)
    return parse_traceparent(told.get("traceparent"))


def _trace(trace_id: str, span_id: str, flags: int) -> Trace | None:
    if len(trace_id) != 32 or not _HEX.fullmatch(trace_id + span_id) or not 0 <= flags <= _MOST_FLAGS:  # noqa: PLR2004
        return None
    trace = Trace(int(trace_id, 16), int(span_id, 16), flags)
    return trace if trace.trace_id and trace.span_id else None
