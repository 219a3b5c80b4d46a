"""The exceptions of Ferryman, all but those that a handler raises: `Retry`, `Fail` and `Snooze`.

FerrymanError
├── ConfigurationError            a setting is missing, unknown, or contradicts another
│   └── NoDatabaseError           no database is configured
├── InvalidJobError               the queue cannot store a value; nothing was sent (also a ValueError)
│   └── InvalidPayloadError       a payload cannot be stored as JSON, or does not fit its task
├── CrontabError                  a crontab cannot be read, or cannot work (also a ValueError)
├── JobScheduleError              a hook kept a job from being added
│   ├── JobScheduleSkippedError   it skipped the job
│   └── JobScheduleFailedError    it refused the job, or failed
├── ScheduleError                 a schedule in the database cannot be added or changed as requested
│   ├── DuplicateScheduleError    the name of a new schedule is taken; nothing was added
│   └── UnknownScheduleError      the database has no schedule of that name; nothing was changed
├── TaskError                     a task is defined or used in a way that cannot work
│   ├── DuplicateTaskError        two tasks have the same identifier
│   └── UnknownTaskError          no task of this application has that identifier or class
├── LeaseLostError                the worker has lost the job that a handler works on
├── SchemaError                   Ferryman cannot use the schema in the database
│   ├── SchemaMissingError        the schema is not installed
│   ├── IncompatibleSchemaError   the schema is too old, too new or not Graphile's
│   └── UnsupportedServerError    PostgreSQL is older than Ferryman supports
├── DatabaseError                 PostgreSQL refused a statement
│   ├── DatabaseUnavailableError  the server cannot be reached, or stopped answering
│   │   └── NotConnectedError     no connection was available; nothing was sent
│   └── JobNotAddedError          the database accepted the call but stored no job
├── EmbeddedServerError           the private PostgreSQL could not be found, created or started
├── WorkerCrashed                 the process that ran a job exited before the job ended
└── PoolClosedError               a pool of child processes was closed before the job could run or finish
"""

from __future__ import annotations

import signal
from typing import Self


class FerrymanError(Exception):
    """The base class of Ferryman's exceptions. Some wrong arguments are a plain `TypeError` or `ValueError`."""


class ConfigurationError(FerrymanError):
    """A setting is missing, unknown, or contradicts another."""


class NoDatabaseError(ConfigurationError):
    """No database is configured."""


class InvalidJobError(FerrymanError, ValueError):
    """The queue cannot store a value; nothing was sent."""


class InvalidPayloadError(InvalidJobError):
    """A payload cannot be stored as JSON, or does not fit the parameters of its task."""


class CrontabError(FerrymanError, ValueError):
    """A crontab cannot be read, or cannot work; nothing was scheduled.

    problems: every problem that was found, with its line if it comes from a text
    """

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class JobScheduleError(FerrymanError):
    """A hook kept a job from being added; nothing was added."""


class JobScheduleSkippedError(JobScheduleError):
    """A hook skipped the job, so it was not added."""


class JobScheduleFailedError(JobScheduleError):
    """A hook refused the job or failed, so the job was not added."""


class ScheduleError(FerrymanError):
    """A schedule in the database cannot be added or changed as requested."""


class DuplicateScheduleError(ScheduleError):
    """The name of a new schedule is taken; nothing was added."""


class UnknownScheduleError(ScheduleError):
    """The database has no schedule of that name; nothing was changed."""


class TaskError(FerrymanError):
    """A task is defined or used in a way that cannot work."""


class DuplicateTaskError(TaskError):
    """Two tasks have the same identifier."""


class UnknownTaskError(TaskError):
    """No task of this application has that identifier or class."""


class LeaseLostError(FerrymanError):
    """The worker has lost the job that the handler works on, so the job was not completed."""


class SchemaError(FerrymanError):
    """Ferryman cannot use the schema in the database."""


class SchemaMissingError(SchemaError):
    """The schema is not installed in the database."""


class IncompatibleSchemaError(SchemaError):
    """The schema is too old, too new, or not Graphile Worker's."""


class UnsupportedServerError(SchemaError):
    """The PostgreSQL server is older than Ferryman supports."""


class DatabaseError(FerrymanError):
    """PostgreSQL refused a statement; the driver's error is chained."""


class DatabaseUnavailableError(DatabaseError):
    """The server cannot be reached, or stopped answering."""


class NotConnectedError(DatabaseUnavailableError):
    """No connection was available, so nothing was sent. It is safe to try again."""


class JobNotAddedError(DatabaseError):
    """The database accepted the call but stored no job, also after retries."""


class EmbeddedServerError(FerrymanError):
    """The private PostgreSQL could not be found, created or started."""


class WorkerCrashed(FerrymanError):  # noqa: N818 - the name that people know from error texts and retry policies
    """The process that ran a job exited before the job ended.

    If the process was a child of the worker, the retry policy decides. If it was the worker itself, `on_crash` decides
    what happens to the job, and this name is in its `last_error`.

    exit_code: as in `subprocess`: the exit code, or minus the number of the signal that killed the process
    has_begun: True if the task had started; otherwise its module was being imported
    """

    def __init__(self, message: str, exit_code: int | None = None, has_begun: bool = True) -> None:
        super().__init__(message, exit_code, has_begun)
        self.message = message
        self.exit_code = exit_code
        self.has_begun = has_begun

    def __str__(self) -> str:
        return self.message

    @classmethod
    def of(cls, order: object, exit_code: int, *, has_begun: bool) -> Self:
        """Return an error that names the job and the cause of the exit."""
        duty = "ran" if has_begun else "was about to run"
        return cls(f"the process that {duty} {order} {_ended(exit_code)}", exit_code, has_begun)


class PoolClosedError(FerrymanError):
    """The pool was closed before the job could run, or before it finished."""


def _ended(exit_code: int) -> str:
    if exit_code >= 0:
        return f"ended itself with exit code {exit_code}"
    out_of_memory = ". That is also what the system does when memory runs out" if -exit_code == signal.SIGKILL else ""
    return f"was ended by {_signal_name(-exit_code)}{out_of_memory}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
