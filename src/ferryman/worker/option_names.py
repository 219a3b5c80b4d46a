"""Refuses worker options that do not exist, and names the one that is meant. Only imported for such a mistake."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import TYPE_CHECKING

from ferryman.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

OTHER_NAMES = {
    "worker_recovery": "recovery=",
    "worker_shutdown": "shutdown=",
    "grace_period": "shutdown_grace_period=",
    "graceful_shutdown_abort_timeout": "shutdown_grace_period=",
    "interrupted_job_retry_delay": "shutdown_interrupted_job_retry_delay=",
    "no_handle_signals": "listen_os_shutdown_signals=False",
    "with_cron": "crontabs=",
    "with_crons": "crontabs=",
    "with_crontab": "crontabs=",
    "crontab": "crontabs=",
    "crontab_file": "crontabs= with the text of the file",
    "parsed_cron_items": "crontabs=",
    "add_forbidden_flag": "forbidden_flags=",
    "add_extension": "extensions=",
    "add_plugin": "hooks=",
    "plugins": "hooks=",
    "on": "hooks=",
    "events": "hooks=",
    "concurrent_jobs": "concurrency=",
    "max_pg_conn": "max_connections=",
    "max_pool_size": "max_connections=",
    "use_node_time": "use_local_time=",
    "size": "local_queue=LocalQueueConfig(size=…)",
    "ttl": "local_queue=LocalQueueConfig(ttl=…)",
    "queue_count": "local_queue=LocalQueueConfig(queue_count=…)",
    "refetch_delay": "local_queue=LocalQueueConfig(refetch_delay=…)",
    "duration": "RefetchDelayConfig(duration=…)",
    "threshold": "RefetchDelayConfig(threshold=…)",
    "max_abort_threshold": "RefetchDelayConfig(max_abort_threshold=…)",
    "define_job": "@app.task on its function or class",
    "task_list": "@app.task on its function or class",
    "database_url": "App(database_url)",
    "connection_string": "App(database_url)",
    "pg_pool": "App(database_url)",
    "database": "App(database_url)",
    "schema": "App(schema=…)",
}
"""Options of Graphile Worker, in snake case, that go by another name here; docs/coming-from.md has all of them."""


def refuse_unknown_options(given: Mapping[str, object], known: Mapping[str, object]) -> None:
    """`ConfigurationError` for the first option that does not exist."""
    for name in given:
        if name not in known:
            raise ConfigurationError(f"there is no worker option {name!r}; {_hint(name, known)}")


def _hint(name: str, known: Mapping[str, object]) -> str:
    snake = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
    if snake in OTHER_NAMES:
        return f"here it is {OTHER_NAMES[snake]}"
    close = get_close_matches(snake, known, 1)
    return f"did you mean {close[0]!r}?" if close else f"there are: {', '.join(known)}"
