"""What both clients share: settings, and the way to the database."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, LiteralString, NoReturn

from ferryman.client.core import Core
from ferryman.database.addresses import find_address, is_embedded, parse_address
from ferryman.database.identifiers import SchemaName
from ferryman.errors import ConfigurationError
from ferryman.hooks import HookRegistry
from ferryman.settings import Settings
from ferryman.tasks import TaskRegistry

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ferryman.database.addresses import Address
    from ferryman.embedded import EmbeddedPostgres
    from ferryman.tasks import Task

_OTHER_NAMES = {
    "with_hooks": "Give it the hooks when you make it: Client(hooks=…), app.client(hooks=…).",
    "with_use_local_time": "Say it when you make it: Client(use_local_time=True), app.client(use_local_time=True).",
    "with_executor": "Pass your connection to each call: using=connection.",
}
"""Methods of the Rust worker's `WorkerUtils` that are arguments here."""


class BaseClient:
    """Settings of a client.

    database_url: where the database is; default: DATABASE_URL, pyproject.toml, or libpq's PG* variables
    schema: the schema that holds the queue; default: FERRYMAN_SCHEMA, or `graphile_worker`
    tasks: the tasks of an application; `App.client()` gives its own
    use_local_time: take this machine's clock instead of the database's for jobs without a `run_at`
    max_connections: how many connections may be open at once
    hooks: asked before a job is added (`BeforeJobSchedule`), and asked and told about jobs that a sweep recovers
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
            raise ConfigurationError("give either settings, or database_url and schema; not both")
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
        """Where the database is and how to use it."""
        return self._settings

    @property
    def tasks(self) -> Mapping[str, Task[..., Any]]:
        """The tasks that the client knows, by identifier; to look at, not to change."""
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
        """Where to connect to, and the private PostgreSQL if the URL asks for it; it is started then."""
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
            f"or pass a connection of your own with using=."
        )
