"""Many at once."""

import psycopg

from .processes import is_quiet, watchdogs
from .waiting import eventually


def test_fifteen_processes_that_start_at_once_on_a_fresh_folder_share_one_server(join, folder):
    users = [join() for _ in range(15)]

    [dsn] = {user.joined() for user in users}
    with psycopg.connect(dsn) as connection:
        assert connection.execute("select 1").fetchone() == (1,)
    assert len(watchdogs(folder)) == 1

    for user in users:
        user.leave()
    eventually(lambda: is_quiet(folder))
