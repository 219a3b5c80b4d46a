"""Schedules: crontabs, how they are written, and how workers add their jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ferryman.on_demand import names_on_demand

if TYPE_CHECKING:
    from ferryman.cron.builder import Cron, CronOptions, Weekday
    from ferryman.cron.crontab import Crontab
    from ferryman.cron.crontab_registry import CrontabRegistry
    from ferryman.cron.fill import CrontabFill
    from ferryman.cron.parsing import parse_crontab
    from ferryman.cron.pattern import parse_timer
    from ferryman.cron.timer import CrontabTimer
    from ferryman.cron.words import describe, next_times

__all__ = [
    "Cron",
    "CronOptions",
    "Crontab",
    "CrontabFill",
    "CrontabRegistry",
    "CrontabTimer",
    "Weekday",
    "describe",
    "next_times",
    "parse_crontab",
    "parse_timer",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = names_on_demand(
        __name__,
        {
            "ferryman.cron.builder": "Cron CronOptions Weekday",
            "ferryman.cron.crontab": "Crontab",
            "ferryman.cron.fill": "CrontabFill",
            "ferryman.cron.parsing": "parse_crontab",
            "ferryman.cron.pattern": "parse_timer",
            "ferryman.cron.crontab_registry": "CrontabRegistry",
            "ferryman.cron.timer": "CrontabTimer",
            "ferryman.cron.words": "describe next_times",
        },
    )
