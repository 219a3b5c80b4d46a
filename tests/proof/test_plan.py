"""What is done is decided by the seed."""

from __future__ import annotations

import itertools
import random

from benchmarks.chaos.plan import TASKS, UNHARMED, draw_job, fleet
from benchmarks.kill.plan import digest, planned_jobs, planned_workers


def test_the_same_seed_gives_the_same_plan() -> None:
    assert [*itertools.islice(planned_jobs(5), 500)] == [*itertools.islice(planned_jobs(5), 500)]
    assert [*itertools.islice(planned_workers(5), 500)] == [*itertools.islice(planned_workers(5), 500)]
    assert digest(5, 100) == digest(5, 100)


def test_another_seed_gives_another_plan() -> None:
    assert digest(5, 100) != digest(6, 100)


def test_a_plan_has_something_of_everything() -> None:
    jobs = [*itertools.islice(planned_jobs(1), 1200)]
    workers = [*itertools.islice(planned_workers(1), 200)]

    assert {job.task for job in jobs} == {"on_loop", "in_thread", "in_child", "batch", "retried", "failed"}
    assert {job.queue is None for job in jobs} == {job.key is None for job in jobs} == {True, False}
    assert {job.is_undone for job in jobs} == {job.delay > 0 for job in jobs} == {True, False}
    assert any(job.exits for job in jobs)
    assert any(job.fails and job.max_attempts <= job.fails for job in jobs)
    assert {worker.fault for worker in workers} == {"kill", "freeze", "pause", "terminate"}
    assert {worker.prefetch is None for worker in workers} == {worker.is_early for worker in workers} == {True, False}
    assert any(worker.has_children for worker in workers)


def test_the_same_seed_gives_the_same_chaos() -> None:
    assert [*itertools.islice(fleet(5), 500)] == [*itertools.islice(fleet(5), 500)]
    assert draw_job(random.Random(5), 1, key="k") == draw_job(random.Random(5), 1, key="k")


def test_chaos_has_something_of_everything() -> None:
    dice = random.Random(1)
    jobs = [draw_job(dice, number, key=None) for number in range(1000)]
    workers = [*itertools.islice(fleet(1), 200)]

    assert {job.task for job in jobs} == {*TASKS}
    assert {job.queue is None for job in jobs} == {job.snoozes > 0 for job in jobs} == {True, False}
    assert any(job.fails and job.max_attempts <= job.fails for job in jobs)
    assert all(worker.after > 1000 for worker in workers[:UNHARMED])
    assert {worker.fault for worker in workers[UNHARMED:]} == {"kill", "freeze", "pause", "terminate"}
    assert {worker.prefetch is None for worker in workers} == {True, False}
