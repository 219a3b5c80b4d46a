"""The key `_trace` in the text of a payload."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from ferryman.traces import (
    Origin,
    Trace,
    origin_of,
    parse_traceparent,
    with_died,
    with_trace,
    with_trace_of,
    without_trace,
)

TRACE = Trace(0x4BF92F3577B34DA6A3CE929D0E0E4736, 0x00F067AA0BA902B7, 1)
STORED = '{"flags":1,"trace_id":"4bf92f3577b34da6a3ce929d0e0e4736","span_id":"00f067aa0ba902b7"}'
TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.mark.parametrize(
    "payload",
    [
        "{}",
        '{"a":1}',
        '{"_trace2":1,"a":{"_trace":{"deep":[1.50,1e400]}}}',
        '{"text":"a \\"_trace\\": in it","n":123456789012345678901234567890}',
    ],
)
def test_a_trace_that_was_put_in_is_read_and_taken_out_again_to_the_letter(payload: str) -> None:
    traced = with_trace(payload, TRACE)
    assert json.loads(traced)["_trace"] == json.loads(STORED)
    assert origin_of(traced) == Origin((TRACE,))
    assert without_trace(traced) == payload
    assert json.loads(with_trace(traced, TRACE)) == json.loads(traced)


def test_what_is_no_object_has_no_place_for_a_trace() -> None:
    for payload in ("null", "7", '"_trace"', '["_trace"]', "[]", '[{"_trace":'):
        assert with_trace(payload, TRACE) == payload
        assert with_trace_of(payload, with_trace("{}", TRACE)) == payload
        assert with_died(payload, TRACE) == payload
        assert without_trace(payload) == payload
        assert origin_of(payload) == Origin()


def test_a_payload_that_cannot_be_read_is_left_alone() -> None:
    for payload in ('{"_trace":1,"a":}', '{"a":1 "_trace":2}', '{"_trace":' + "[" * 5000 + "]" * 5000 + "}"):
        assert with_trace(payload, TRACE) == payload
        assert with_died(payload, TRACE) == payload


def test_a_payload_with_spaces_is_an_object_too() -> None:
    payload = ' { "a" : 1 }\n'
    assert json.loads(with_trace(payload, TRACE)) == {"_trace": json.loads(STORED), "a": 1}
    assert json.loads(without_trace(f'{{ "a" : 1, "_trace" : {STORED} }}')) == {"a": 1}
    assert json.loads(with_trace("{ }", TRACE)) == {"_trace": json.loads(STORED)}


def test_a_replaced_payload_keeps_its_trace_and_the_attempt_that_died() -> None:
    earlier = with_died(with_trace('{"a":1}', TRACE), Trace(1, 2, 3))
    later = with_trace_of('{"b":2}', earlier)
    assert json.loads(without_trace(later)) == {"b": 2}
    assert origin_of(later) == origin_of(earlier) == Origin((TRACE,), Trace(1, 2, 3))
    assert with_trace_of('{"b":2}', '{"a":1}') == '{"b":2}'


def test_a_traceparent_is_read_by_the_rules_of_w3c() -> None:
    assert parse_traceparent(TRACEPARENT) == TRACE
    assert parse_traceparent(f"01-{TRACEPARENT[3:]}-what-comes-later") == TRACE
    for text in ("", f"ff-{TRACEPARENT[3:]}", TRACEPARENT.upper(), TRACEPARENT[:-1], f"00-{'0' * 32}-{'0' * 16}-01"):
        assert parse_traceparent(text) is None
    assert parse_traceparent(f"{TRACEPARENT}-more") is None, "version 00 ends with its flags"
    assert str(TRACE) == TRACEPARENT


def test_a_program_that_does_not_use_opentelemetry_never_loads_it() -> None:
    program = (
        "import sys; from ferryman import App, Worker, Client; from ferryman.worker import life;"
        "from ferryman.traces import find_tracing; assert find_tracing(is_wanted=True) is None;"
        "assert not [name for name in sys.modules if name.startswith(('opentelemetry', 'ferryman.observe'))]"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
