"""Tracing: what a job costs its worker's process with OpenTelemetry and without.

Jobs are drained with default settings, as in the drain. All of them carry a trace, as if a program had added them
within a span; "no trace in the payload" is the drain itself. The SDK keeps no span, so exporting is not measured. With
a provider that makes no spans, what a job takes beyond a worker that has not loaded OpenTelemetry is Ferryman's own
part. The rest is the SDK's, as long as the sampler says yes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.parts import drain
from benchmarks.products import DEFAULT, FERRYMAN
from benchmarks.results import Part

if TYPE_CHECKING:
    from benchmarks.bench import Bench

PLAIN, ABSENT, OPTED_OUT = "no trace in the payload", "not loaded", "App(tracing=False)"
NO_SDK, NO_SPANS = "the API alone", "a provider without spans"
UNSAMPLED, SAMPLED = "SDK, no job sampled", "SDK, every job sampled"
CASES = (PLAIN, ABSENT, OPTED_OUT, NO_SDK, NO_SPANS, UNSAMPLED, SAMPLED)
SCENARIO, COST = "drain, default settings, 1 process", "processor time of the worker for a job"
TRACED = """
    update graphile_worker._private_jobs set payload = cast(format(
        '{"_trace":{"flags":1,"trace_id":"%s","span_id":"%s"},%s', md5(id::text), left(md5(id::text), 16),
        ltrim(substr(ltrim(payload::text), 2))
    ) as json)
"""


def measure(bench: Bench) -> Part:
    part = Part("tracing")
    jobs = drain.jobs_for(bench, FERRYMAN, DEFAULT)
    for number in range(bench.rounds):
        for case in CASES if number % 2 else reversed(CASES):
            for product in bench.interleaved(part, [FERRYMAN], what=f"round {number + 1}, {case}", rounds=1):
                into = part.of(SCENARIO, case, "jobs/s")
                drain.drain(
                    bench,
                    product,
                    DEFAULT,
                    processes=1,
                    jobs=jobs,
                    into=into,
                    changed={"tracing": case},
                    after_fill="" if case == PLAIN else TRACED,
                )
                part.of(COST, case, "µs").values.append(into.facts["client_us"][-1])
        without, traced = part.of(COST, ABSENT, "µs"), part.of(COST, NO_SPANS, "µs")
        traced.note(own_us=traced.values[-1] - without.values[-1])
    part.series.sort(key=lambda one: (one.scenario != SCENARIO, CASES.index(one.contender)))
    return part
