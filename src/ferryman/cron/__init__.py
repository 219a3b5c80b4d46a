"""Schedules: what they are made of, and how they are written."""

from ferryman.cron.builder import Cron, CronOptions, Weekday
from ferryman.cron.crontab import Crontab
from ferryman.cron.fill import CrontabFill
from ferryman.cron.parsing import parse_crontab
from ferryman.cron.pattern import parse_timer
from ferryman.cron.registry import CrontabRegistry
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
