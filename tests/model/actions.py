"""How each step of a history is done, in the database and in the model, and that both agree on what comes back."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from ferryman.errors import DatabaseUnavailableError
from ferryman.hooks import HookRegistry
from ferryman.jobs import JobKeyMode, JobSpec
from ferryman.queries.beat import look_at_workers, pulse, register_worker, rejoin_worker
from ferryman.queries.claim import register_tasks
from ferryman.recovery.config import INFRASTRUCTURE_RESILIENT_FLAG, WorkerRecoveryConfig
from ferryman.recovery.membership import worker_metadata
from ferryman.recovery.observer import Dead, Sign, SilenceObserver
from ferryman.recovery.policies import own_policies, store_policies
from ferryman.recovery.sweep_plan import Sweep
from ferryman.recovery.sweep_results import SweepStaleWorkersOptions
from ferryman.recovery.sweeping import sweep_once
from ferryman.worker.claiming.claims import task_ids
from ferryman.worker.settling.outcomes import Failed
from ferryman.worker.settling.settler import Settler
from tests.model.model_database import SECOND, Line, as_moment, as_time
from tests.model.oracle import Job, Oracle, Registered
from tests.model.sweeping import ModelSweep, Rules, Seen
from tests.model.watching import ModelObserver, Shown
from tests.model.workers import POLICIES, Held, Worker, app

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Sequence

    from ferryman.recovery.sweep_results import SweepStaleWorkersResult
    from ferryman.retries import OnCrash
    from ferryman.worker.claiming.claims import Claim
    from ferryman.worker.settling.outcomes import Outcome, Settlement
    from tests.model.model_database import ModelDatabase

START = 1_900_000_000 * SECOND
STEP = SECOND // 64
"""Time passes with each step, so that no two moments are the same; in floating point its sums are exact."""
LOOK = 10
"""Seconds between two looks of the observer, and between two beats."""
GRACE = 20.0
SWEEP_THRESHOLD, CLAIMED_THRESHOLD = 100.0, 50.0


class Actions:
    """What rules are made of: each action is done by the real statements and by the model.

    witness: counts what was seen in all histories
    """

    def __init__(self, model_database: ModelDatabase, witness: Counter[str]) -> None:
        self.database = model_database
        self.witness = witness
        self.oracle = Oracle(START, START, START - 365 * 86400 * SECOND)
        self.workers: list[Worker] = []
        self.gone: list[Worker] = []
        self.watcher = Worker(model_database, "direct", {}, "requeue")
        self.numbers = 0
        self.added: set[int] = set()
        self.dead: dict[str, Dead] = {}
        self.is_away = False
        self.observer = SilenceObserver(
            grace=GRACE, silences=[CLAIMED_THRESHOLD], reconnect_time=GRACE, longest_gap=2.0 * LOOK
        )
        self.model_observer = ModelObserver(GRACE, 2.0 * LOOK)
        self.reports: dict[Claim, tuple[Outcome, bool]] = {}

    def _prepare(self, delay: int, max_crashes: int) -> None:
        """Empty tables, the rules of this history, and the one who watches."""
        self.database.reset()
        self.settings = WorkerRecoveryConfig(
            heartbeat_interval=timedelta(seconds=LOOK),
            sweep_threshold=timedelta(seconds=SWEEP_THRESHOLD),
            claimed_threshold=timedelta(seconds=CLAIMED_THRESHOLD),
            lost_session_grace=timedelta(seconds=GRACE),
            recovery_delay=timedelta(seconds=delay),
            max_crashes=max_crashes,
        ).settings
        self.rules = Rules(
            threshold=SWEEP_THRESHOLD,
            claimed_threshold=CLAIMED_THRESHOLD,
            multiplier=3,
            recovery_delay=delay,
            max_crashes=max_crashes,
            crash_window=72 * 3600,
            on_crash="requeue",
            policies=POLICIES,
        )
        self._pass()
        numbers = task_ids(self.database.fetch(register_tasks([*POLICIES])))
        self.task_ids = {name: number for number, name in numbers.items()}
        self.database.run(store_policies(app.tasks.values()))
        self._register(self.watcher)

    def _pass(self, time: int = 0, *, begun_before: int = 0) -> None:
        """Let some time pass."""
        self.witness["passes"] += 1
        self.oracle.at += time + STEP
        self.oracle.begun_at = self.oracle.at - begun_before
        self.database.set_clock(self.oracle.at, begun_at=self.oracle.begun_at, up_since=self.oracle.up_since)

    def _awake(self, *, holding: bool = False) -> list[Worker]:
        return [worker for worker in self.workers if not worker.is_frozen and (worker.held or not holding)]

    def _able(self) -> list[Worker]:
        """Those for whom there is something to claim."""
        return [worker for worker in self._awake() if self._claimable(worker)]

    def _claimable(self, worker: Worker) -> list[Job]:
        return self.oracle.claimable(worker.tasks, avoids_resilient=worker.avoids_resilient)

    def _spent(self) -> list[int]:
        return [job.id for job in self.oracle.jobs.values() if job.attempts >= job.max_attempts]

    def _holding(self) -> list[Worker]:
        return [worker for worker in self.workers if worker.held or worker.unheard_as]

    def _unstarted(self) -> list[tuple[Worker, Held]]:
        return [(worker, held) for worker in self._awake() for held in worker.held if not held.has_started]

    def _unstarted_suspects(self) -> list[tuple[Worker, Held]]:
        return [(worker, held) for worker, held in self._unstarted() if worker.is_ours and held.claim.crash_flags]

    def _frozen(self) -> list[Worker]:
        return [worker for worker in self.workers if worker.is_frozen]

    def _add(
        self,
        key: str | None,
        mode: JobKeyMode,
        *,
        task: str,
        queue: str | None,
        priority: int,
        delay: int,
        max_attempts: int,
        is_resilient: bool,
    ) -> None:
        run_at = self.oracle.begun_at + delay * SECOND
        spec = JobSpec(
            queue_name=queue,
            run_at=as_time(run_at) if delay else None,
            max_attempts=max_attempts,
            job_key=key,
            job_key_mode=mode,
            priority=priority,
            flags=(INFRASTRUCTURE_RESILIENT_FLAG,) if is_resilient else None,
        )
        added = self.database.client.add_raw_job(task, [self.oracle.at], spec)
        new = Job(
            id=added.id,
            task=task,
            queue=queue,
            payload=f"[{self.oracle.at}]",
            priority=priority,
            run_at=run_at,
            max_attempts=max_attempts,
            key=key,
            is_resilient=is_resilient,
            updated_at=self.oracle.begun_at,
        )
        stored = self.oracle.add(new, mode)
        assert added.id == stored.id
        assert (stored is new) == (added.id not in self.added)
        self.added.add(added.id)

    def _join(self, *, kind: str, tasks: Sequence[str], on_crash: OnCrash, avoids_resilient: bool) -> None:
        known = {self.task_ids[name]: name for name in tasks}
        worker = Worker(self.database, kind, known, on_crash, avoids_resilient=avoids_resilient)
        self._register(worker)
        self.workers.append(worker)

    def _register(self, worker: Worker) -> None:
        """Under an id that nobody had before."""
        self.numbers += 1
        prefix = {"node": "worker-", "rust": "graphile_worker_"}.get(worker.kind, "ferryman-")
        worker.identity.id = f"{prefix}{self.numbers:018}"
        if not worker.registers:
            return
        self._open_session(worker)
        self.database.fetch(register_worker(worker.id, self._metadata(worker)))
        self._note_registered(worker)

    def _metadata(self, worker: Worker) -> dict[str, Any]:
        if worker.kind == "rust":
            return {}
        config = replace(self.settings, on_crash=worker.on_crash)
        told = worker_metadata(
            config,
            version="1",
            tasks=[],
            concurrency=1,
            prefetches=worker.prefetches,
            policies=own_policies(app.tasks.values()),
        )
        return {**told, "session_key": worker.session_key}

    def _note_registered(self, worker: Worker) -> None:
        says_little = worker.kind == "rust"
        self.oracle.workers[worker.id] = Registered(
            beat=self.oracle.at,
            prefetches=None if says_little else worker.prefetches,
            beat_interval=30.0 if says_little else float(LOOK),
            session_key=worker.session_key,
            on_crash=None if says_little else worker.on_crash,
            isolates=not says_little,
        )

    def _open_session(self, worker: Worker) -> None:
        if worker.kind != "rust" and worker.session_key not in self.oracle.sessions:
            self.numbers += 1
            worker.session_key = self.numbers
            self.database.hold_session(worker.session_key)
            self.oracle.sessions.add(worker.session_key)

    def _lose_session(self, worker: Worker) -> None:
        if worker.session_key in self.oracle.sessions:
            assert worker.session_key is not None
            self.database.lose_session(worker.session_key)
            self.oracle.sessions.remove(worker.session_key)

    def _beat(self, worker: Worker) -> None:
        """A sign of life, over a new session if the old one is lost. One that was swept goes on under a new id."""
        if not worker.registers:
            return
        if worker.kind != "rust" and worker.session_key not in self.oracle.sessions:
            self._open_session(worker)
            is_registered = bool(self.database.fetch(rejoin_worker(worker.id, self._metadata(worker))))
        else:
            [(is_registered, *_)] = self.database.fetch(pulse(worker.id, is_due=True, watch_step="none", watch_key=0))
        self._has_heard(worker, is_registered)

    def _has_heard(self, worker: Worker, is_registered: bool) -> None:
        assert is_registered == (worker.id in self.oracle.workers)
        if is_registered:
            self._note_registered(worker)
        else:
            self.witness["learnt that it was swept"] += 1
            self._register(worker)

    def _come_back(self) -> None:
        self.is_away = False
        for worker in [self.watcher, *self._awake()]:
            self._beat(worker)

    def _claim(self, worker: Worker, wanted: int) -> None:
        self._give_back_unheard(worker)
        ideal = self._claimable(worker)[:wanted]
        claimed = self.database.do(worker.claimer.claim(wanted))
        assert [claim.job_id for claim in claimed.claims] == [job.id for job in ideal]
        self._has_claimed(worker, claimed.claims)

    def _claim_unheard(self, worker: Worker, wanted: int) -> None:
        self.database.do(worker.lost.give_back(at_once=True))
        self._give_back_unheard(worker)
        ideal = self._claimable(worker)[:wanted]
        worker.line.loses_reply = True
        with pytest.raises(DatabaseUnavailableError):
            self.database.do(worker.claimer.claim(wanted))
        worker.line.loses_reply = False
        worker.unheard_as.add(worker.id)
        self.oracle.claim(ideal, worker.id)

    def _poll(self, *, is_heard: bool = True) -> None:
        """Those who have little to do look for more."""
        for worker in self._awake():
            if len(worker.held) < 3 and (worker.unheard_as or self._claimable(worker)):
                self._pass()
                if is_heard:
                    self._claim(worker, 2)
                else:
                    self._claim_unheard(worker, 2)

    def _give_back_unheard(self, worker: Worker) -> None:
        """The model's part; the real claimer does it before it claims."""
        for name in worker.unheard_as:
            self.witness["claims given back unheard"] += len(self.oracle.return_unheard(name, worker.newest_token))
        worker.unheard_as.clear()

    def _has_claimed(self, worker: Worker, claims: Sequence[Claim]) -> None:
        jobs = [self.oracle.jobs[claim.job_id] for claim in claims]
        self.oracle.claim(jobs, worker.id)
        for claim, job in zip(claims, jobs, strict=True):
            told = (claim.attempts, claim.max_attempts, claim.token, claim.last_error, claim.queue_id is not None)
            assert told == (job.attempts, job.max_attempts, job.locked_at, job.last_error, job.queue is not None)
            assert claim.job(job.task).queue_name == job.queue
        worker.held += [
            Held(
                claim,
                job.task,
                job.queue,
                has_started=not worker.prefetches and not (worker.is_ours and claim.crash_flags),
            )
            for claim, job in zip(claims, jobs, strict=True)
        ]
        if claims:
            worker.newest_token = claims[0].token
            self.witness["claimed"] += len(claims)

    def _start(self, worker: Worker, held: Held) -> None:
        if not worker.marks.are_needed(app.registry[held.task], held.claim):
            held.has_started = True
            return
        may_start = self.database.do(worker.marks.mark(held.claim))
        assert may_start == self.oracle.mark(*held.fence)
        self.witness["start marked" if may_start else "start refused"] += 1
        held.has_started = may_start
        if not may_start:
            worker.held.remove(held)

    def _crash(self, worker: Worker) -> None:
        self.workers.remove(worker)
        self.gone.append(worker)
        self._lose_session(worker)

    def _settle(self, worker: Worker, endings: Sequence[tuple[Held, Outcome]]) -> None:
        """Through the real settler, all together."""
        self.reports = {}
        self.database.do(self._write([(held.claim, outcome) for held, outcome in endings]))
        for held, outcome in endings:
            reported, is_written = self.reports[held.claim]
            job = self.oracle.jobs.get(held.claim.job_id)
            assert is_written == self.oracle.settle(*held.fence, held.queue, outcome), held
            self.witness["accepted" if is_written else "refused"] += 1
            if is_written and job is not None and isinstance(reported, Failed):
                assert reported.is_final == (job.attempts >= job.max_attempts)
            worker.held.remove(held)

    async def _write(self, endings: Sequence[tuple[Claim, Outcome]]) -> None:
        settler = Settler(Line(self.database))
        settler.tell(self)
        writing = asyncio.create_task(settler.run())
        for claim, outcome in endings:
            settler.settle(claim, outcome)
        await settler.flush()
        writing.cancel()
        await asyncio.wait([writing])

    def settled(self, written: Sequence[Settlement], refused: Sequence[Settlement]) -> None:
        self.reports |= {settlement.claim: (settlement.outcome, True) for settlement in written}
        self.reports |= {settlement.claim: (settlement.outcome, False) for settlement in refused}

    def _watch(self, looks: int, *, sweeps: bool) -> None:
        for _ in range(looks):
            self._pass(LOOK * SECOND - STEP)
            if self.is_away:
                self._could_not_look()
                self._come_back()
            else:
                for worker in self._awake():
                    self._beat(worker)
                self._look()
            if sweeps and self.dead:
                self._sweep(batch=500)
        self._poll()

    def _look(self) -> None:
        call = look_at_workers(
            self.watcher.id, is_due=True, watch_step="keep", watch_key=0, is_full=True, old_after=float(LOOK)
        )
        rows = self.database.fetch(call)
        signs = [Sign(*row[2:-1]) for row in rows if row[2] is not None]
        shown = self._shown()
        assert {sign.worker_id: (as_moment(sign.beat), sign.has_lost_session, sign.is_old) for sign in signs} == {
            name: (one.beat, one.has_lost_session, one.is_old) for name, one in shown.items()
        }
        self._has_heard(self.watcher, rows[0][0])
        now = (self.oracle.at - START) / SECOND
        dead = self.observer.looked(signs, is_full=True, sent=now, received=now)
        told = {one.worker_id: (as_moment(one.last_heartbeat_at), one.reason, one.silent_for) for one in dead}
        assert told == self.model_observer.looked(now, shown)
        self.dead.update({one.worker_id: one for one in dead})

    def _shown(self) -> dict[str, Shown]:
        shown = {}
        for name, worker in self.oracle.workers.items():
            has_lost = worker.session_key is not None and worker.session_key not in self.oracle.sessions
            is_old = not self.oracle.at - LOOK * SECOND <= worker.beat <= self.oracle.at
            if name != self.watcher.id and (has_lost or is_old):
                limit = max(CLAIMED_THRESHOLD, 2 * worker.beat_interval)
                shown[name] = Shown(worker.beat, has_lost, is_old, limit)
        return shown

    def _could_not_look(self) -> None:
        self.observer.could_not_look()
        self.model_observer.could_not_look()

    def _sweep(self, batch: int) -> None:
        seen = {
            name: Seen(as_moment(one.last_heartbeat_at), one.silent_for, one.reason == "session lost")
            for name, one in self.dead.items()
        }
        model = ModelSweep(self.oracle, self.rules, self.watcher.id, observed=seen, finds_orphans=False)
        observed, self.dead = [*self.dead.values()], {}
        for one in observed:
            worker = self.oracle.workers.get(one.worker_id)
            self.witness["seen dead and alive again"] += worker is not None and worker.beat != seen[one.worker_id].beat
        result = self._swept(self.watcher.id, observed=observed, finds_orphans=False, batch=batch)
        self._compare_sweep(model, result)

    def _sweep_names(self, names: Sequence[str]) -> None:
        model = ModelSweep(self.oracle, self.rules, "somebody", named=names)
        options = SweepStaleWorkersOptions(worker_ids=names)
        self._compare_sweep(model, self._swept("somebody", options=options))

    def _swept(self, recovered_by: str, **given: Any) -> SweepStaleWorkersResult:
        sweep = Sweep(
            schema_name=self.database.client.schema.name,
            settings=self.settings,
            recovered_by=recovered_by,
            hooks=HookRegistry(),
            clock=lambda: self.database.waited_seconds,
            **given,
        )
        result: SweepStaleWorkersResult = self.database.run(sweep_once(sweep))
        return result

    def _compare_sweep(self, model: ModelSweep, result: SweepStaleWorkersResult) -> None:
        taken, dead = model.run()
        assert sorted(result.worker_ids) == sorted(dead)
        assert [(one.job_id, one.worker_id, one.started, one.decision) for one in result.recoveries] == [
            (one.job_id, one.worker_id, one.started, one.decision) for one in taken
        ]
        begun = {held.fence: held.has_started for worker in [*self.workers, *self.gone] for held in worker.held}
        for one in taken:
            self.witness[one.decision] += 1
            truth = begun.get((one.worker_id, one.job_id, one.token))
            if truth is not None and one.started is not None:
                assert one.started is truth, f"job {one.job_id} has begun: {truth}; the sweep believes: {one.started}"
        self.witness["only unstarted jobs taken"] += bool(taken) and not dead
        if taken:
            self.all_is_as_foretold()
