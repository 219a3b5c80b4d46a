"""Data belongs to the major version that made it."""

from datetime import timedelta

import psycopg
import pytest

from ferryman.embedded import EmbeddedPostgres, ServerBinaries, find_binaries
from ferryman.embedded.binaries import OLDEST_MAJOR, installed_candidates, probe
from ferryman.errors import EmbeddedServerError
from tests.support.embedded_processes import until_quiet


def another_version() -> ServerBinaries | None:
    """Programs on this machine that are not the ones found first."""
    first = find_binaries().major
    for candidate in installed_candidates():
        try:
            found = probe(candidate)
        except EmbeddedServerError:
            continue
        if found.major != first and found.major >= OLDEST_MAJOR:
            return found
    return None


def test_data_is_opened_by_the_version_that_made_it_although_a_newer_one_is_there(fresh_folder):
    older = another_version()
    if older is None:
        pytest.skip("needs two PostgreSQL versions")
    with EmbeddedPostgres(fresh_folder, binaries=older.folder, linger=timedelta(0)):
        pass
    until_quiet(fresh_folder)

    with EmbeddedPostgres(fresh_folder, linger=timedelta(0)) as server, psycopg.connect(server.dsn) as connection:
        assert connection.info.server_version // 10000 == older.major


def test_data_of_a_version_that_is_not_here_is_named_with_its_folder(folder):
    version = folder / "data" / "PG_VERSION"
    original = version.read_text()
    version.write_text("99\n")
    try:
        with pytest.raises(EmbeddedServerError) as problem:
            EmbeddedPostgres(folder).start()
    finally:
        version.write_text(original)

    assert str(problem.value).startswith(f"{folder}/data was made by PostgreSQL 99, and only that version can open it")
    assert "cannot open data of PostgreSQL 99" in str(problem.value)


def test_given_programs_of_the_wrong_version_are_refused(folder):
    with pytest.raises(EmbeddedServerError, match="cannot open data of PostgreSQL"):
        EmbeddedPostgres(folder, binaries=ServerBinaries(folder, "42.1", "here")).start()
