"""Spans in memory. Imported by a fixture: a program that has loaded OpenTelemetry is another program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    import pytest
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.trace import Span, SpanContext, Tracer


class Spans:
    """A tracer, and the spans that have ended."""

    def __init__(self) -> None:
        self._ended = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._ended))
        self.tracer = self.provider.get_tracer("tests")

    def active(self, name: str = "request", *, sampled: bool = True) -> AbstractContextManager[Span]:
        """A span that is the current one for as long as the block lasts."""
        tracer = self.tracer if sampled else TracerProvider(sampler=ALWAYS_OFF).get_tracer("tests")
        return tracer.start_as_current_span(name)

    def named(self, name: str) -> list[ReadableSpan]:
        """The spans of this name, in the order of their ends."""
        return [span for span in self._ended.get_finished_spans() if span.name == name]

    def only(self, name: str) -> ReadableSpan:
        """The one span of this name."""
        [span] = self.named(name)
        return span

    @property
    def names(self) -> list[str]:
        """The names of all, sorted."""
        return sorted(span.name for span in self._ended.get_finished_spans())

    @staticmethod
    def of_no_sdk(monkeypatch: pytest.MonkeyPatch) -> Tracer:
        """The tracer of a program without an SDK. The examples of a page may have set one up in this process."""
        monkeypatch.setattr(trace, "_TRACER_PROVIDER", None)
        return trace.ProxyTracer("tests")

    @staticmethod
    def current() -> SpanContext:
        """The span that is current here."""
        return trace.get_current_span().get_span_context()

    @staticmethod
    def in_rust_shape(span: ReadableSpan) -> dict[str, Any]:
        """The key that the Rust worker would write for this span."""
        context = span.get_span_context()
        assert context is not None
        return {
            "flags": int(context.trace_flags),
            "trace_id": f"{context.trace_id:032x}",
            "span_id": f"{context.span_id:016x}",
        }

    @staticmethod
    def linked(span: ReadableSpan) -> list[tuple[int, int]]:
        """The spans that this one is linked to."""
        return [(link.context.trace_id, link.context.span_id) for link in span.links]

    @staticmethod
    def ids(span: ReadableSpan) -> tuple[int, int]:
        """The numbers of a span."""
        context = span.get_span_context()
        assert context is not None
        return context.trace_id, context.span_id
