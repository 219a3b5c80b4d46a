"""What both clients share: settings, and the way to the database."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, LiteralString

from ferryman.client.core import Core
from ferryman.database.addresses import find_address, is_embedded, parse_address
from ferryman.database.identifiers import SchemaName
from ferryman.errors import ConfigurationError
from ferryman.hooks import HookRegistry
from ferryman.settings import Settings
from ferryman.tasks import TaskRegistry

if TYPE_CHECKING:
    from ferryman.database.addresses import Address
    from ferryman.embedded import EmbeddedPostgres


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
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}(schema={self._schema.name!r})"

    @property
    def schema(self) -> SchemaName:
        """The schema that holds the queue."""
        return self._schema

    def _find_address(self) -> Address:
        """Where to connect to; starts the private PostgreSQL when the URL asks for it."""
        url = self._settings.database_url
        if url is None or not is_embedded(url):
            return find_address(url)
        from ferryman.embedded import EmbeddedPostgres  # noqa: PLC0415 - for development, not for most programs

        self._server = EmbeddedPostgres.from_dsn(url).start()
        return parse_address(self._server.dsn)

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
