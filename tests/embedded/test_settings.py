"""PostgreSQL settings of the caller's choice."""

from datetime import timedelta
from pathlib import Path

import psycopg
import pytest

from ferryman.embedded import EmbeddedPostgres
from ferryman.embedded.paths import ServerFiles, read_place
from ferryman.errors import EmbeddedServerError
from tests.support.embedded_processes import until_quiet


def test_the_process_that_starts_the_server_chooses_its_settings(folder):
    wanted = {"fsync": "off", "work_mem": "7MB", "max_connections": "33"}
    with EmbeddedPostgres(folder, linger=timedelta(0), settings=wanted) as server, psycopg.connect(server.dsn) as db:
        assert {name: db.execute(f"show {name}").fetchone()[0] for name in wanted} == wanted


@pytest.mark.parametrize("name", ["port", "listen_addresses", "Data_Directory"])
def test_where_the_server_is_and_who_may_enter_is_not_a_setting(name):
    with pytest.raises(EmbeddedServerError, match=f"chooses the setting '{name}' itself"):
        EmbeddedPostgres("anywhere", settings={name: "1"})


@pytest.mark.parametrize("name", ["", "a=b", "two words", "-D"])
def test_a_name_that_is_no_name_is_refused(name):
    with pytest.raises(EmbeddedServerError, match="PostgreSQL settings cannot be named"):
        EmbeddedPostgres("anywhere", settings={name: "1"})


def test_a_setting_that_postgres_refuses_is_quoted_and_does_no_harm(folder):
    with pytest.raises(EmbeddedServerError, match=r'invalid value for parameter "work_mem": "a lot"'):
        EmbeddedPostgres(folder, settings={"work_mem": "a lot"}).start()
    until_quiet(folder)
    assert not Path(read_place(ServerFiles(folder)).socket_folder).exists()

    with EmbeddedPostgres(folder, linger=timedelta(0)) as server, psycopg.connect(server.dsn) as db:
        assert db.execute("select 1").fetchone() == (1,)
