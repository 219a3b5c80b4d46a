"""Traces jobs with OpenTelemetry, in spans that follow its semantic conventions for messaging.

Needs only the package `opentelemetry-api`. Without an SDK the API's own tracer makes no spans, and nothing is traced.
"""

from __future__ import annotations

import logging
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.trace import Link, NonRecordingSpan, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from ferryman import __version__
from ferryman.jobs import NewJob
from ferryman.traces import Trace, origin_of, parse_traceparent, with_trace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextvars import Token
    from datetime import datetime
    from typing import Self

    from opentelemetry.trace import Span, Tracer
    from opentelemetry.util.types import AttributeValue

    from ferryman.jobs import Job
    from ferryman.traces import Attempted, Origin

SCHEMA_URL = "https://opentelemetry.io/schemas/1.44.0"
SYSTEM = "graphile-worker"
"""The value of `messaging.system`, the same as in the Rust worker: one search finds the spans of both."""
_ROOT = contexts.Context()
_FLAGS = [TraceFlags(number) for number in range(256)]
_ERROR_TYPE = re.compile(r"[A-Za-z_][\w.]*(?=: |\n|$)")
_OTHER = "_OTHER"
"""The name that the conventions give to an error without a type."""
_FAILURES = frozenset({"failed", "retrying", "lost", "died"})

logger = logging.getLogger("ferryman.observe")


class OpenTelemetry:
    """Makes the spans of jobs: one for adding them, and one for each attempt."""

    def __init__(self, tracer: Tracer | None = None) -> None:
        self.tracer = tracer or trace.get_tracer("ferryman", __version__, schema_url=SCHEMA_URL)

    def send(self, jobs: Sequence[NewJob]) -> _Sending | None:
        """Start a span `send <task>` within the current one and put its context into the payloads; None without one."""
        if not jobs or not trace.get_current_span().get_span_context().is_valid:
            return None
        try:
            return self._send(jobs)
        except Exception:
            logger.exception("tracing failed; adding the jobs without a trace", extra={"event": "tracing_failed"})
            return None

    def _send(self, jobs: Sequence[NewJob]) -> _Sending:
        identifier = jobs[0].identifier
        is_one_task = len(jobs) == 1 or all(job.identifier == identifier for job in jobs)
        attributes = _operation("send", identifier if is_one_task else None)
        if len(jobs) > 1:
            attributes["messaging.batch.message_count"] = len(jobs)
        span = self.tracer.start_span(
            f"send {identifier}" if is_one_task else "send", kind=SpanKind.PRODUCER, attributes=attributes
        )
        numbers = _numbers(span)
        if numbers is None:  # no SDK: the current span came from elsewhere, and the trace continues from there
            numbers = _numbers(trace.get_current_span())
        traced = jobs if numbers is None else [_traced(job, numbers) for job in jobs]
        return _Sending(traced, span)

    def processing(self, identifier: str) -> Callable[[Attempted], _Processing]:
        """Return a function that starts a span `process <task>` for an attempt, linked to the spans in its payload."""
        tracer, name, common = self.tracer, f"process {identifier}", _operation("process", identifier)
        may_be_alone = isinstance(tracer, trace.ProxyTracer)

        def begin(attempted: Attempted) -> _Processing:
            if may_be_alone and isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
                return _NO_SPAN  # no SDK is set up, or not yet
            origin = origin_of(attempted.payload_json)
            span = tracer.start_span(
                name,
                _ROOT,
                SpanKind.CONSUMER,
                _described(common, attempted),
                _links(origin) if origin.producers or origin.died else None,
            )
            return _Processing(span, contexts.attach(trace.set_span_in_context(span, _ROOT)))

        return begin

    def died(self, identifier: str, attempted: Attempted, started_at: datetime) -> tuple[Trace | None, _Processing]:
        """Start the span of an attempt whose worker died, from its claim on."""
        span = self.tracer.start_span(
            f"process {identifier}",
            _ROOT,
            SpanKind.CONSUMER,
            _described(_operation("process", identifier), attempted),
            _links(origin_of(attempted.payload_json)),
            start_time=int(started_at.timestamp() * 1_000_000_000),
        )
        return _numbers(span), _Processing(span, None)

    def current(self) -> str | None:
        """The current span as a W3C traceparent."""
        numbers = _numbers(trace.get_current_span())
        return None if numbers is None else str(numbers)

    @contextmanager
    def resume(self, traceparent: str) -> Iterator[None]:
        """Make spans that start within the block children of this one."""
        numbers = parse_traceparent(traceparent)
        if numbers is None:
            yield
            return
        token = contexts.attach(trace.set_span_in_context(NonRecordingSpan(_context(numbers)), _ROOT))
        try:
            yield
        finally:
            contexts.detach(token)


class _Sending:
    """The span that covers adding jobs."""

    def __init__(self, jobs: Sequence[NewJob], span: Span) -> None:
        self.jobs = jobs
        self._span = span

    def __enter__(self) -> Self:
        return self

    def added(self, job: Job) -> None:
        """Add the id of the job to the span. It was not known before."""
        self._span.set_attribute("messaging.message.id", str(job.id))

    def __exit__(self, *error: object) -> None:
        problem = error[1]
        if isinstance(problem, Exception):
            kind = type(problem).__qualname__
            self._span.set_attribute("error.type", kind)
            self._span.set_status(Status(StatusCode.ERROR, kind))
        self._span.end()


class _Processing:
    """The span of an attempt, which is the current span until it ends."""

    __slots__ = ("_span", "_token")

    def __init__(self, span: Span, token: Token[Any] | None) -> None:
        self._span = span
        self._token = token

    def end(self, outcome: str, error: str | None = None) -> None:
        """End the span with this outcome. Attempts that did not succeed get the status of an error."""
        if self._token is not None:
            contexts.detach(self._token)
        span = self._span
        if span.is_recording():
            span.set_attribute("ferryman.outcome", outcome)
            if outcome in _FAILURES:
                _tell_error(span, error or outcome)
        span.end()


def _operation(name: str, identifier: str | None) -> dict[str, AttributeValue]:
    attributes: dict[str, AttributeValue] = {
        "messaging.system": SYSTEM,
        "messaging.operation.name": name,
        "messaging.operation.type": name,
    }
    if identifier is not None:
        attributes["messaging.destination.name"] = identifier
    return attributes


def _described(common: dict[str, AttributeValue], attempted: Attempted) -> dict[str, AttributeValue]:
    attributes: dict[str, AttributeValue] = {
        **common,
        "messaging.message.id": str(attempted.job_id),
        "messaging.client.id": attempted.worker_id,
        "ferryman.attempt": attempted.attempts,
        "ferryman.max_attempts": attempted.max_attempts,
    }
    queue_name = attempted.queue_name
    if queue_name is not None:
        attributes["messaging.consumer.group.name"] = queue_name
    return attributes


def _links(origin: Origin) -> list[Link]:
    links = [Link(_context(producer)) for producer in origin.producers]
    if origin.died is not None:
        links.append(Link(_context(origin.died), {"ferryman.link": "died"}))
    return links


def _context(numbers: Trace) -> SpanContext:
    return SpanContext(numbers.trace_id, numbers.span_id, is_remote=True, trace_flags=_FLAGS[numbers.flags])


def _numbers(span: Span) -> Trace | None:
    context = span.get_span_context()
    return Trace(context.trace_id, context.span_id, int(context.trace_flags)) if context.is_valid else None


def _traced(job: NewJob, numbers: Trace) -> NewJob:
    return NewJob(job.identifier, with_trace(job.payload_json, numbers), job.spec)


def _tell_error(span: Span, error: str) -> None:
    first, _, trace_back = error.partition("\n\n")
    kind = _ERROR_TYPE.match(first)
    type_name = _OTHER if kind is None else kind[0]
    message = first if kind is None else first[kind.end() :].removeprefix(": ")
    span.set_attribute("error.type", type_name)
    span.set_status(Status(StatusCode.ERROR, first))
    span.add_event(
        "exception",
        {"exception.type": type_name, "exception.message": message, "exception.stacktrace": trace_back or first},
    )


_NO_SPAN = _Processing(trace.INVALID_SPAN, None)
TRACING = OpenTelemetry()
