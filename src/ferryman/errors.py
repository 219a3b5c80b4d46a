"""Every exception that Ferryman raises.

FerrymanError
├── ConfigurationError            settings that are missing, unknown or contradict each other
│   └── NoDatabaseError           nobody said which database to use
├── InvalidJobError               a value that the queue would refuse; nothing was sent (also a ValueError)
│   └── InvalidPayloadError       a payload that is not storable JSON, or does not fit its task
├── JobScheduleError              a hook decided about a job that was about to be added; nothing was added
│   ├── JobScheduleSkippedError   it said: do not add it
│   └── JobScheduleFailedError    it said why not, or failed itself
├── TaskError
│   ├── DuplicateTaskError        two tasks want one identifier
│   └── UnknownTaskError          no task of this application fits
├── SchemaError
│   ├── SchemaMissingError        the database has no such schema yet
│   ├── IncompatibleSchemaError   the schema is too old, too new or not Graphile's
│   └── UnsupportedServerError    PostgreSQL is older than Ferryman supports
├── DatabaseError
│   ├── DatabaseUnavailableError  the server cannot be reached, or went away
│   └── JobNotAddedError          the database accepted the call but stored no job
└── EmbeddedServerError           the private PostgreSQL could not be found, made or started
"""


class FerrymanError(Exception):
    """Anything that Ferryman raises on purpose."""


class ConfigurationError(FerrymanError):
    """Settings are missing, unknown or contradict each other."""


class NoDatabaseError(ConfigurationError):
    """Nobody said which database to use."""


class InvalidJobError(FerrymanError, ValueError):
    """A value lies outside what the queue can store; nothing was sent."""


class InvalidPayloadError(InvalidJobError):
    """A payload is not storable JSON, or does not fit the parameters of its task."""


class JobScheduleError(FerrymanError):
    """A hook kept a job from being added; nothing was added."""


class JobScheduleSkippedError(JobScheduleError):
    """A hook said that the job shall not be added."""


class JobScheduleFailedError(JobScheduleError):
    """A hook refused the job, or failed."""


class TaskError(FerrymanError):
    """A task is defined or asked for in a way that cannot work."""


class DuplicateTaskError(TaskError):
    """Two tasks want the same identifier."""


class UnknownTaskError(TaskError):
    """No task of this application has that identifier or class."""


class SchemaError(FerrymanError):
    """The schema in the database is not one that Ferryman can use."""


class SchemaMissingError(SchemaError):
    """The database has no such schema yet."""


class IncompatibleSchemaError(SchemaError):
    """The schema is too old, too new, or not Graphile Worker's."""


class UnsupportedServerError(SchemaError):
    """The PostgreSQL server is older than Ferryman supports."""


class DatabaseError(FerrymanError):
    """PostgreSQL refused a statement; the cause is chained."""


class DatabaseUnavailableError(DatabaseError):
    """The server cannot be reached, or went away."""


class JobNotAddedError(DatabaseError):
    """The database accepted the call but stored no job, even when asked again."""


class EmbeddedServerError(FerrymanError):
    """The private PostgreSQL could not be found, made or started."""
