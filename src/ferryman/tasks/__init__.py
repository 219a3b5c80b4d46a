"""Tasks: functions and classes that jobs run, and the payloads that they take."""

from ferryman.tasks.decorator import TaskDecorator
from ferryman.tasks.forms import Arguments
from ferryman.tasks.registry import TaskRegistry
from ferryman.tasks.task import Task

__all__ = ["Arguments", "Task", "TaskDecorator", "TaskRegistry"]
