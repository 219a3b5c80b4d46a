"""Every exception that Ferryman raises.

FerrymanError
├── ConfigurationError            settings that are missing, unknown or contradict each other
│   └── NoDatabaseError           nobody said which database to use
├── InvalidJobError               a value that the queue would refuse; nothing was sent (also a ValueError)
│   └── InvalidPayloadError       a payload that is not storable JSON, or does not fit its task
├── CrontabError                  a schedule that cannot be read, or can never work (also a ValueError)
├── JobScheduleError              a hook decided about a job that was about to be added; nothing was added
│   ├── JobScheduleSkippedError   it said: do not add it
│   └── JobScheduleFailedError    it said why not, or failed itself
├── ScheduleError
│   ├── DuplicateScheduleError    the name of a new schedule is taken; nothing was added
│   └── UnknownScheduleError      no schedule of that name is kept in the database; nothing was changed
├── TaskError
│   ├── DuplicateTaskError        two tasks want one identifier
│   └── UnknownTaskError          no task of this application fits
├── LeaseLostError                a job was taken away from the worker that was running it
├── SchemaError
│   ├── SchemaMissingError        the database has no such schema yet
│   ├── IncompatibleSchemaError   the schema is too old, too new or not Graphile's
│   └── UnsupportedServerError    PostgreSQL is older than Ferryman supports
├── DatabaseError
│   ├── DatabaseUnavailableError  the server cannot be reached, or went away
│   │   └── NotConnectedError     there was no connection to be had; nothing was sent
│   └── JobNotAddedError          the database accepted the call but stored no job
├── EmbeddedServerError           the private PostgreSQL could not be found, made or started
├── WorkerCrashed                 the process that ran a job ended before the job did
└── PoolClosedError               a pool of child processes was closed before the job could run or finish
"""

from __future__ import annotations

import signal
from typing import Self


class FerrymanError(Exception):
    """The base class of every error that Ferryman raises on purpose."""


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

    A retry policy is asked about it when the process was a child of the worker. When it was the worker itself, nobody
    is left to ask: `on_crash` says what becomes of the job, and this name stands in its error.

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
        """Make an error that names the job and the cause of the exit."""
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
