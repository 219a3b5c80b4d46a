"""The base of both clients: their settings, the address of their database, and the making of jobs."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, LiteralString, NoReturn

import msgspec

from ferryman.database.addresses import find_address, is_embedded, parse_address
from ferryman.database.identifiers import SchemaName
from ferryman.errors import ConfigurationError
from ferryman.hooks import HookRegistry
from ferryman.jobs import NO_SPEC, NewJob
from ferryman.payloads import check_size, encode_payload
from ferryman.script_guard import importing, refuse_while_importing
from ferryman.settings import Settings
from ferryman.tasks import TaskRegistry
from ferryman.traces import find_tracing

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ferryman.database.addresses import Address
    from ferryman.embedded import EmbeddedPostgres
    from ferryman.jobs import JobSpec
    from ferryman.tasks import Task
    from ferryman.traces import Tracing

_OTHER_NAMES = {
    "with_hooks": "Give the hooks to the constructor: Client(hooks=…), app.client(hooks=…).",
    "with_use_local_time": "Pass it to the constructor: Client(use_local_time=True), app.client(use_local_time=True).",
    "with_executor": "Pass your connection to each call: using=connection.",
}
"""Methods of the Rust crate's `WorkerUtils` that are arguments here."""


class Core(msgspec.Struct, frozen=True):
    """The parts of a client that every operation needs: the schema, the tasks and the hooks. No connections."""

    schema: SchemaName
    tasks: TaskRegistry
    max_payload_bytes: int
    use_local_time: bool
    hooks: HookRegistry
    is_traced: bool

    @property
    def tracing(self) -> Tracing | None:
        """The tracer that reports jobs to OpenTelemetry; None if the program has not loaded it, or tracing is off."""
        return find_tracing(is_wanted=self.is_traced)

    def new_job(self, job: object, spec: JobSpec | None) -> NewJob:
        """Make a job with its final spec from what `Task.job` returned, or from an instance of a task class."""
        return self.new_jobs([(job, spec)])[0]

    def new_jobs(self, items: Iterable[object | tuple[object, JobSpec | None]]) -> list[NewJob]:
        """Make many jobs. Jobs that are added together mostly share one spec, which is completed once."""
        jobs: list[NewJob] = []
        given = defaults = completed = NO_SPEC
        for item in items:
            job, spec = item if isinstance(item, tuple) else (item, None)
            made = job if isinstance(job, NewJob) else self.tasks.job_of(job)
            if spec is not None:
                if spec is not given or made.spec is not defaults:
                    given, defaults, completed = spec, made.spec, spec.over(made.spec)
                made = NewJob(made.identifier, made.payload_json, completed)
            jobs.append(self._finished(made))
        return jobs

    def raw_job(self, identifier: str, payload: object, spec: JobSpec | None) -> NewJob:
        """Make a job for any task identifier, with any JSON payload. None becomes an empty object, as in Node."""
        payload_json = "{}" if payload is None else encode_payload(payload)
        return self._finished(NewJob(identifier, payload_json, NO_SPEC if spec is None else spec))

    def _finished(self, job: NewJob) -> NewJob:
        if importing:
            refuse_while_importing("adds a job")
        check_size(job.identifier, job.payload_json, self.max_payload_bytes)
        if self.use_local_time and job.spec.run_at is None:
            run_at = datetime.now(UTC) + (job.spec.delay or timedelta())
            return NewJob(job.identifier, job.payload_json, replace(job.spec, run_at=run_at, delay=None))
        return job


class BaseClient:
    """Settings of a client.

    database_url: where the database is; default: DATABASE_URL, pyproject.toml, or libpq's PG* variables
    schema: the schema that holds the queue; default: FERRYMAN_SCHEMA, GRAPHILE_WORKER_SCHEMA, pyproject.toml, or
        `graphile_worker`
    tasks: the tasks of an application; `App.client()` gives its own
    use_local_time: give jobs without a `run_at` the time of this machine, not of the database
    max_connections: how many connections may be open at once
    hooks: asked before a job is added (`BeforeJobSchedule`), and about jobs that a sweep by this client recovers
    """

    _is_blocking: ClassVar[bool]
    """True if its methods return results, False if what they return must be awaited."""

    def __init__(
        self,
        database_url: str | None = None,
        *,
        schema: str | None = None,
        tasks: TaskRegistry | None = None,
        settings: Settings | None = None,
        use_local_time: bool = False,
        max_connections: int = 10,
        hooks: HookRegistry | None = None,
    ) -> None:
        if settings is None:
            settings = Settings.load(given={"database_url": database_url, "schema": schema})
        elif database_url is not None or schema is not None:
            raise ConfigurationError("give either settings, or database_url and schema; not both. No client was made.")
        if max_connections < 1:
            raise ConfigurationError(f"max_connections must be at least 1; got {max_connections}")
        self._settings = settings
        self._schema = SchemaName(settings.schema)
        self._max_connections = max_connections
        self._server: EmbeddedPostgres | None = None
        self._core = Core(
            schema=self._schema,
            tasks=TaskRegistry() if tasks is None else tasks,
            max_payload_bytes=settings.max_payload_bytes,
            use_local_time=use_local_time,
            hooks=HookRegistry() if hooks is None else hooks,
            is_traced=settings.tracing,
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}(schema={self._schema.name!r})"

    @property
    def schema(self) -> SchemaName:
        """The schema that holds the queue."""
        return self._schema

    @property
    def settings(self) -> Settings:
        """The settings: the address of the database, the schema, and limits."""
        return self._settings

    @property
    def tasks(self) -> Mapping[str, Task[..., Any]]:
        """The tasks that the client knows, by identifier; read-only."""
        return MappingProxyType(self._core.tasks)

    @property
    def use_local_time(self) -> bool:
        """True if jobs without a `run_at` get this machine's time, not the database's."""
        return self._core.use_local_time

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            hint = f". {_OTHER_NAMES[name]}" if name in _OTHER_NAMES else ""
            problem = f"{type(self).__name__!r} object has no attribute {name!r}{hint}"
            raise AttributeError(problem, name=name, obj=self)

    def _find_address(self) -> tuple[Address, EmbeddedPostgres | None]:
        """Return the address to connect to, and the private PostgreSQL if the URL asks for one: it is started then."""
        url = self._settings.database_url
        if url is None or not is_embedded(url):
            return find_address(url), None
        from ferryman.embedded import EmbeddedPostgres  # noqa: PLC0415 - for development, not for most programs

        server = EmbeddedPostgres.from_dsn(url).start()
        return parse_address(server.dsn), server

    def _leave_server(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.close()

    def _not_open(self, how: LiteralString) -> ConfigurationError:
        name = type(self).__name__
        return ConfigurationError(
            f"this {name} is not open, so nothing was sent. Use `{how} {name}(…) as client:`, call open() first, "
            f"or pass your own connection with using=."
        )
