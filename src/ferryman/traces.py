"""Stores the trace of a job in its payload, and defines the interface through which a tracing library sees jobs.

The payload's key is `_trace`, in the form that the Rust worker writes. A payload that is not a JSON object has no place
for it. Nothing here imports a tracing library: `ferryman.observe` does, if the program has loaded one.
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
"""The key by W3C's rules, which other programs put beside the keys of the payload."""
_MARK = f'"{TRACE_KEY}"'
_LIBRARY = "opentelemetry.trace"
MOST_ITEMS = 128
"""How many items of a batch are searched for traces; tracing libraries keep no more links."""

_ID, _SPAN = "[0-9a-f]{32}", "[0-9a-f]{16}"
_OURS = re.compile(
    rf'\{{"_trace":\{{"flags":(25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d),'
    rf'"trace_id":"(?!0{{32}})({_ID})","span_id":"(?!0{{16}})({_SPAN})"\}},?'
)
"""A payload as `with_trace` writes it, which need not be parsed to find its trace."""
_TRACEPARENT = re.compile(rf"(?!ff|00.{{53}}-)[0-9a-f]{{2}}-({_ID})-({_SPAN})-([0-9a-f]{{2}})(?:-.*)?", re.DOTALL)
_HEX = re.compile(rf"{_ID}{_SPAN}", re.IGNORECASE)
_MOST_FLAGS = 255


class Trace(msgspec.Struct, frozen=True):
    """A reference to a span of a trace: its ids and flags. Neither id is 0."""

    trace_id: int
    span_id: int
    flags: int = 0

    def __str__(self) -> str:
        return f"00-{self.trace_id:032x}-{self.span_id:016x}-{self.flags:02x}"


class Origin(msgspec.Struct, frozen=True):
    """The spans that the payload of a job refers to.

    producers: the spans that added the job, or the items of a batch
    died: the span of the previous attempt, if its worker died
    """

    producers: Sequence[Trace] = ()
    died: Trace | None = None


NO_ORIGIN = Origin()

_raw_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
_items = msgspec.json.Decoder(list[msgspec.Raw])


def with_trace(payload_json: str, trace: Trace) -> str:
    """Put this trace into the payload, in place of another. A payload that is not an object is not changed."""
    value = f'{{"flags":{trace.flags},"trace_id":"{trace.trace_id:032x}","span_id":"{trace.span_id:016x}"}}'
    return _with_key(payload_json, value)


def with_died(payload_json: str, died: Trace) -> str:
    """Add the span of an attempt that died to the payload, beside its trace. Only objects have a place for it."""
    fields = _fields(payload_json).get(TRACE_KEY, msgspec.Raw(b"{}"))
    known = _decoded(fields)
    members = known if isinstance(known, dict) else {"traceparent": known}
    return _with_key(payload_json, msgspec.json.encode({**members, "died": str(died)}).decode())


def with_trace_of(payload_json: str, earlier_json: str) -> str:
    """Copy the trace of the payload that this one replaces."""
    if _MARK not in earlier_json:
        return payload_json
    value = _fields(earlier_json).get(TRACE_KEY)
    return payload_json if value is None else _with_key(payload_json, bytes(value).decode())


def without_trace(payload_json: str) -> str:
    """Remove the key `_trace` from the payload, and from the items of a batch."""
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
    """Read the spans that the payload refers to. Anything that cannot be read is ignored."""
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
    """Parse a W3C traceparent; None if it names no span."""
    found = _TRACEPARENT.fullmatch(text) if isinstance(text, str) else None
    return None if found is None else _trace(found[1], found[2], int(found[3], 16))


class Sending(Protocol):
    """A block in which jobs are added. It ends when the database has stored or refused them."""

    jobs: Sequence[NewJob]
    """The jobs to add, with their trace."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: object) -> None: ...

    def added(self, job: Job) -> None:
        """Note the id of the only job."""


class Processing(Protocol):
    """An attempt while it runs."""

    def end(self, outcome: str, error: str | None = None) -> None:
        """End the attempt with this outcome.

        error: the error of a failed attempt: a type, a message, and perhaps a traceback
        """


class Attempted(Protocol):
    """An attempt at a job, with the facts for a trace. Its row may be decoded only as far as needed."""

    @property
    def job_id(self) -> int:
        """The id of the job."""

    @property
    def payload_json(self) -> str:
        """The payload, with the key `_trace`."""

    @property
    def attempts(self) -> int:
        """The number of the attempt, from 1."""

    @property
    def max_attempts(self) -> int:
        """The highest number of attempts of its job."""

    @property
    def worker_id(self) -> str:
        """The id of the worker."""

    @property
    def queue_name(self) -> str | None:
        """The named queue of its job."""


class Tracing(Protocol):
    """The link to a tracing library. Nothing here may fail a job: callers expect any exception."""

    def send(self, jobs: Sequence[NewJob]) -> Sending | None:
        """Trace jobs while they are added; None if there is no current trace."""

    def processing(self, identifier: str) -> Callable[[Attempted], Processing]:
        """Make a tracer for attempts of this task, with what they have in common."""

    def died(self, identifier: str, attempted: Attempted, started_at: datetime) -> tuple[Trace | None, Processing]:
        """Begin the span of an attempt whose worker died, on behalf of that worker."""

    def current(self) -> str | None:
        """The current span as a W3C traceparent; None if there is none."""

    def resume(self, traceparent: str) -> AbstractContextManager[object]:
        """Make the span of another process the current one in the block."""


class Untraced(msgspec.Struct):
    """Jobs that are added outside any trace."""

    jobs: Sequence[Any]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None: ...

    def added(self, job: Job) -> None:
        """Ignore the job."""


def find_tracing(*, is_wanted: bool) -> Tracing | None:
    """Return the link to the program's tracing library; None if the program has loaded none."""
    return _load() if is_wanted and _LIBRARY in sys.modules else None


def load_tracing() -> Tracing | None:
    """Load the tracing library in a child process whose worker uses it; None if it is not installed here."""
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
    """Return the keys of a payload that is a JSON object; none for any other."""
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
