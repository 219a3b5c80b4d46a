"""Recovers jobs of dead workers on request (a sweep), and lists workers and crashes.

Sweeps and their results are imported when they are first used: mostly it is a worker that sweeps.
"""

from __future__ import annotations

import json
import os
import socket
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from ferryman.client.managing import check_ids
from ferryman.errors import InvalidJobError
from ferryman.queries import sweep as sweep_queries
from ferryman.recovery.config import WorkerRecoveryConfig

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ferryman.client.base import Core
    from ferryman.database.steps import Steps
    from ferryman.recovery.sweep_results import (
        ActiveWorker,
        Crash,
        LostWorker,
        Pruned,
        SweepStaleWorkersOptions,
        SweepStaleWorkersResult,
        WorkerState,
    )

MOST_LOST_WORKERS = 1000
MOST_WORKER_STATES = 10_000


def sweep_stale_workers(core: Core, options: SweepStaleWorkersOptions | None = None) -> Steps[SweepStaleWorkersResult]:
    """Sweep once: find workers that have been silent for too long, and recover their jobs.

    `options` can change the threshold and the delay, or ask for a dry run. Everything else has the defaults of
    `WorkerRecoveryConfig`.
    """
    result = yield from sweep_stale_workers_with_config(core, WorkerRecoveryConfig(), options)
    return result


def sweep_stale_workers_with_config(
    core: Core, config: WorkerRecoveryConfig, options: SweepStaleWorkersOptions | None = None
) -> Steps[SweepStaleWorkersResult]:
    """Sweep once with your own settings; see `sweep_stale_workers`. Ignores `config.enabled`."""
    from ferryman.recovery.sweep_plan import Sweep  # noqa: PLC0415 - see above
    from ferryman.recovery.sweep_results import SweepStaleWorkersOptions  # noqa: PLC0415 - see above
    from ferryman.recovery.sweeping import sweep_once  # noqa: PLC0415 - see above

    sweep = Sweep(
        schema_name=core.schema.name,
        settings=config.settings,
        recovered_by=f"client {socket.gethostname()} {os.getpid()}",
        hooks=core.hooks,
        options=options or SweepStaleWorkersOptions(),
        tracing=core.tracing,
    )
    result = yield from sweep_once(sweep)
    return result


def list_active_workers(_core: Core, threshold: timedelta = timedelta(minutes=5)) -> Steps[list[ActiveWorker]]:
    """List the registered workers, oldest first. A worker is stale if it sent no heartbeat for `threshold`."""
    from ferryman.recovery.sweep_results import ActiveWorker  # noqa: PLC0415 - see above

    if not isinstance(threshold, timedelta) or threshold <= timedelta():
        raise InvalidJobError(f"threshold must be a positive timedelta; got {threshold!r}")
    rows = yield sweep_queries.list_active_workers(threshold.total_seconds())
    return [
        ActiveWorker(
            worker_id=worker_id,
            is_stale=is_stale,
            is_session_lost=is_session_lost,
            started_at=started_at,
            last_heartbeat_at=last_heartbeat_at,
            metadata=_metadata(metadata),
        )
        for worker_id, started_at, last_heartbeat_at, is_stale, metadata, is_session_lost in rows
    ]


def list_lost_workers(_core: Core, limit: int = 50) -> Steps[list[LostWorker]]:
    """List the workers on record that were declared dead, newest first."""
    from ferryman.recovery.sweep_results import LostWorker  # noqa: PLC0415 - see above

    if not 1 <= limit <= MOST_LOST_WORKERS:
        raise InvalidJobError(f"limit must be between 1 and {MOST_LOST_WORKERS}; got {limit!r}")
    rows = yield sweep_queries.list_lost_workers(limit)
    return [
        LostWorker(
            worker_id=worker_id,
            started_at=started_at,
            last_heartbeat_at=last_heartbeat_at,
            noticed_at=noticed_at,
            reason=reason,
            metadata=_metadata(metadata),
            recovered_jobs=recovered_jobs,
        )
        for worker_id, started_at, last_heartbeat_at, noticed_at, reason, metadata, recovered_jobs in rows
    ]


def list_worker_states(_core: Core, worker_id: str | None = None, limit: int = 100) -> Steps[list[WorkerState]]:
    """List the states that workers wrote with their heartbeats, newest first; of one worker or of all."""
    from ferryman.recovery.sweep_results import WorkerState, check_worker_ids  # noqa: PLC0415 - see above

    if worker_id is not None:
        check_worker_ids([worker_id])
    if not 1 <= limit <= MOST_WORKER_STATES:
        raise InvalidJobError(f"limit must be between 1 and {MOST_WORKER_STATES}; got {limit!r}")
    rows = yield sweep_queries.list_worker_states(worker_id, limit)
    return [
        WorkerState(
            worker_id=who,
            taken_at=taken_at,
            slots=slots,
            running=running,
            done=done,
            failed=failed,
            rss_bytes=rss_bytes,
            loop_lag=None if lag is None else timedelta(seconds=lag),
        )
        for who, taken_at, slots, running, done, failed, rss_bytes, lag in rows
    ]


def list_crashes(_core: Core, job_id: int) -> Steps[list[Crash]]:
    """List the crashes of this job on record, oldest first: each time it was recovered from a dead worker."""
    from ferryman.recovery.sweep_results import Crash  # noqa: PLC0415 - see above

    [checked] = check_ids([job_id])
    rows = yield sweep_queries.list_crashes(checked)
    return [
        Crash(
            noticed_at=noticed_at,
            worker_id=worker_id,
            recovered_by=recovered_by,
            attempt=attempt,
            started=started,
            decision=decision,
            reason=reason,
        )
        for noticed_at, worker_id, recovered_by, attempt, started, decision, reason in rows
    ]


def prune_recovery_records(core: Core, config: WorkerRecoveryConfig | None = None) -> Steps[Pruned]:
    """Delete lost workers, states, crashes and failed jobs that are older than the config's retention of their kind.

    Failed jobs are deleted only if a registered Ferryman worker has their task. Workers do all this every hour.
    """
    from ferryman.recovery import retention  # noqa: PLC0415 - see above

    settings = (config or WorkerRecoveryConfig()).settings
    pruned = yield from retention.prune(core.schema.name, settings)
    return pruned


def _metadata(text: str | None) -> Mapping[str, Any]:
    """The metadata that a worker wrote about itself. Other programs may have stored something that is not an object."""
    found = None if text is None else json.loads(text)
    return found if isinstance(found, dict) else {}
