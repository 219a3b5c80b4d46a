"""Jobs that are added together: each gets the spec that it would get alone."""

from __future__ import annotations

import itertools

from ferryman import App, JobSpec


def test_each_of_many_jobs_gets_the_spec_that_it_would_get_alone() -> None:
    app = App("postgresql://nowhere")

    @app.task(max_attempts=3)
    async def careful(n: int) -> None: ...

    @app.task(priority=5)
    async def patient(n: int) -> None: ...

    core = app.client()._core
    specs = [JobSpec(priority=1), JobSpec(queue_name="letters"), None]
    pairs = [*itertools.product([careful.job(n=1), patient.job(n=2)], specs)]
    items = [pair for one in pairs for other in pairs for pair in (one, one, other)]  # after its like, and any other
    alone = [core.new_job(*pair) for pair in items]
    assert core.new_jobs(items) == alone
    assert core.new_jobs(job if spec is None else (job, spec) for job, spec in items) == alone
    assert alone[0].spec == JobSpec(max_attempts=3, priority=1)


def test_a_spec_that_many_jobs_share_stays_one_spec() -> None:
    app = App("postgresql://nowhere")

    @app.task(max_attempts=3)
    async def careful(n: int) -> None: ...

    spec = JobSpec(priority=1)
    jobs = app.client()._core.new_jobs((careful.job(n=n), spec) for n in range(3))
    assert len({id(job.spec) for job in jobs}) == 1
