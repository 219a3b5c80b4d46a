"""Tasks: functions and classes that jobs run, and the payloads that they take."""

from ferryman.tasks.decorator import TaskDecorator
from ferryman.tasks.forms import Arguments
from ferryman.tasks.task import Task
from ferryman.tasks.task_registry import TaskRegistry

__all__ = ["Arguments", "Task", "TaskDecorator", "TaskRegistry"]
