"""How a run goes: one PostgreSQL for all its processes, slow tests among quick ones, a fresh database for each test."""

from __future__ import annotations

import os
import signal
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest
from hypothesis import settings

from ferryman import Client, SyncClient
from ferryman.errors import EmbeddedServerError
from tests.support import evidence, once, order, own_servers, versions
from tests.support.npm import NpmError
from tests.support.server import (
    Databases,
    create_database,
    new_name,
    quick_place,
    reachable_folder,
    shared_server,
    template_on,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Generator, Iterator

    from ferryman.embedded import EmbeddedPostgres

settings.register_profile("same each time", derandomize=True, database=None, deadline=None)
settings.register_profile("by the seed", database=None, deadline=None, print_blob=True)

_until_the_end = pytest.StashKey[ExitStack]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("ferryman")
    group.addoption("--seed", type=int, metavar="N", help="run the tests in random order, the same for each N")
    group.addoption(
        "--postgres", metavar="VERSION", help="run on this PostgreSQL, such as 14.9, or 14 for the newest 14 of npm's"
    )
    group.addoption("--record-durations", action="store_true", help="write down how long each test took")


def pytest_configure(config: pytest.Config) -> None:
    _heed_signals()
    settings.load_profile("same each time" if config.getoption("seed") is None else "by the seed")
    versions.wanted = config.getoption("postgres")
    config.stash[_until_the_end] = stack = ExitStack()
    config.add_cleanup(stack.close)
    if hasattr(config, "workerinput"):
        once.folder = Path(config.workerinput["run_folder"])
    else:
        once.folder = stack.enter_context(reachable_folder(quick_place()))
        _find_server()
        if config.getoption("record_durations"):
            config.pluginmanager.register(order.Recorder())


def _find_server() -> None:
    """Have the server programs of the run at hand before anything else happens."""
    try:
        versions.server_binaries()
    except (LookupError, NpmError, EmbeddedServerError) as problem:
        raise pytest.UsageError(str(problem)) from problem


def _heed_signals() -> None:
    """Let processes that tests start heed signals, also when a shell has started the tests in the background."""
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number is signal.SIGINT else signal.SIG_DFL)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config) -> None:
    """Start the server before the processes that will join it; it ends after them."""
    template_on(config.stash[_until_the_end].enter_context(shared_server(once.folder)))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: object) -> None:
    node.workerinput["run_folder"] = str(once.folder)  # type: ignore[attr-defined]


def pytest_report_header(config: pytest.Config) -> list[str]:
    seed, server = config.getoption("seed"), versions.server_binaries()
    return [
        "order: slow tests among quick ones" if seed is None else f"order: random; again with `make test SEED={seed}`",
        f"server: PostgreSQL {server.version} ({server.source})",
    ]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    seconds = order.recorded()
    for item in items:
        if seconds.get(item.nodeid, 0.0) >= order.SLOW:
            item.add_marker("slow")
        if needed := item.get_closest_marker("needs_postgres"):
            _skip_on_older(item, *needed.args)
    order.sort(items, seconds, config.getoption("seed"))


def _skip_on_older(item: pytest.Item, major: int, why: str) -> None:
    server = versions.server_binaries()
    if server.major < major:
        item.add_marker(pytest.mark.skip(f"needs PostgreSQL {major}, and this run has {server.version}: {why}"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        report.sections.extend(evidence.sections(item))
    return report


@pytest.fixture(autouse=True)
def _no_database_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test must not find a database by accident."""
    for variable in [*os.environ]:
        if variable == "DATABASE_URL" or variable.startswith(("PG", "FERRYMAN_", "GRAPHILE_WORKER_")):
            monkeypatch.delenv(variable)


@pytest.fixture(scope="session")
def server() -> Iterator[EmbeddedPostgres]:
    """The PostgreSQL that all tests share, those of other pytest processes too."""
    with shared_server(once.folder) as joined:
        yield joined


@pytest.fixture
def own_server() -> Iterator[EmbeddedPostgres]:
    """A server that the test has for itself, with the schema installed."""
    with own_servers.own_server() as started:
        yield started


@pytest.fixture
def server_folder() -> Iterator[Path]:
    """A folder for a server of the test's own."""
    with reachable_folder() as folder:
        yield folder


@pytest.fixture(scope="session")
def template(server: EmbeddedPostgres) -> str:
    """The name of a database with the schema installed, to be copied."""
    return template_on(server)


@pytest.fixture(scope="session")
def _databases(server: EmbeddedPostgres, template: str) -> Iterator[Databases]:
    databases = Databases(server, template)
    yield databases
    databases.close()


@pytest.fixture
def database(_databases: Databases) -> Iterator[str]:
    """The DSN of a fresh database with the schema installed."""
    dsn = _databases.take()
    yield dsn
    _databases.give_back(dsn)


@pytest.fixture
def empty_database(server: EmbeddedPostgres, _databases: Databases) -> Iterator[str]:
    """The DSN of a fresh, empty database."""
    dsn = create_database(server.dsn, new_name())
    yield dsn
    _databases.give_back(dsn)


@pytest.fixture
async def client(database: str) -> AsyncIterator[Client]:
    async with Client(database) as opened:
        yield opened


@pytest.fixture
def sync_client(database: str) -> Iterator[SyncClient]:
    with SyncClient(database) as opened:
        yield opened


@pytest.fixture
def connection(database: str) -> Iterator[psycopg.Connection]:
    """A plain connection to look at tables, or to stand in for somebody else."""
    with psycopg.connect(database, autocommit=True) as opened:
        yield opened
