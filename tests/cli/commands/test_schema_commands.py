"""`ferryman migrate` and `ferryman schema …`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg

    from tests.support.commands import Ran


@pytest.fixture
def on_empty(run: Callable[..., Ran], empty_database: str, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ran]:
    monkeypatch.setenv("DATABASE_URL", empty_database)
    return run


@pytest.fixture
def at_revision_18(ferryman: Callable[..., Ran], connection: psycopg.Connection) -> Callable[..., Ran]:
    connection.execute("delete from graphile_worker.migrations where id > 18")
    return ferryman


def test_migrate_says_that_it_installed_and_then_that_there_is_nothing_to_do(on_empty: Callable[..., Ran]) -> None:
    first, second = on_empty("migrate"), on_empty("migrate")

    assert (first.code, second.code) == (0, 0)
    assert first.out.startswith("Installed the schema: revision 20 of Graphile Worker")
    assert second.out.startswith("Nothing to do: the schema has revision 20")


def test_migrate_says_that_it_adopted_a_schema_without_our_objects(ferryman: Callable[..., Ran]) -> None:
    ferryman("schema", "uninstall-extensions", "--yes")

    ran = ferryman("migrate", "--json")

    assert ran.json["outcome"] == "adopted"
    assert ran.json["extensions_before"] == 0
    assert ran.json["extensions_after"] >= 1


def test_the_schema_is_chosen_by_option_before_environment(
    on_empty: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRAPHILE_WORKER_SCHEMA", "graphile's")
    by_variable = on_empty("schema", "status", "--json")
    monkeypatch.setenv("FERRYMAN_SCHEMA", "ours")
    by_our_variable = on_empty("schema", "status", "--json")
    by_option = on_empty("schema", "status", "--json", "--schema", "given")

    found = [ran.json["schema"] for ran in (by_variable, by_our_variable, by_option)]
    assert found == ["graphile's", "ours", "given"]


def test_status_of_a_missing_schema_is_1_and_names_the_command_that_installs_it(on_empty: Callable[..., Ran]) -> None:
    ran = on_empty("schema", "status")

    assert ran.code == 1
    assert "usable              no" in ran.out
    assert "ferryman migrate" in ran.out
    assert on_empty("schema", "status", "--json").json["layout"] == "missing"


def test_status_of_a_usable_schema_is_0(ferryman: Callable[..., Ran]) -> None:
    ran = ferryman("schema", "status", "--json")

    assert ran.code == 0
    assert ran.json["usable"] is True
    assert ran.json["revision"] == 20


def test_a_command_on_a_missing_schema_says_how_to_install_it(on_empty: Callable[..., Ran]) -> None:
    ran = on_empty("jobs", "list")

    assert ran.code == 1
    assert "Install it with `ferryman migrate`" in ran.err


def test_upgrade_warns_about_old_node_workers_and_asks(at_revision_18: Callable[..., Ran]) -> None:
    refused = at_revision_18("schema", "upgrade", stdin="n\n")
    assert refused.code == 1
    assert "graphile-worker 0.16" in refused.err
    assert at_revision_18("schema", "status", "--json").json["revision"] == 18

    accepted = at_revision_18("schema", "upgrade", stdin="y\n")
    assert accepted.code == 0
    assert "Upgraded the schema from revision 18 to 20." in accepted.out


def test_upgrade_with_yes_does_not_ask(at_revision_18: Callable[..., Ran]) -> None:
    ran = at_revision_18("schema", "upgrade", "--yes", "--json")

    assert (ran.json["revision_before"], ran.json["revision_after"]) == (18, 20)
    assert ran.err == ""


def test_upgrade_of_the_newest_schema_has_nothing_to_do(ferryman: Callable[..., Ran]) -> None:
    assert "Nothing to do: the schema is at revision 20." in ferryman("schema", "upgrade", "--yes").out


def test_uninstalling_our_objects_leaves_the_jobs(ferryman: Callable[..., Ran]) -> None:
    ferryman("jobs", "add", "kept")

    ran = ferryman("schema", "uninstall-extensions", "--yes")

    assert ran.out.startswith("Dropped: ")
    assert ferryman("jobs", "counts", "--json").json["ready"] == 1
    assert "Nothing to do" in ferryman("schema", "uninstall-extensions", "--yes").out


def test_give_way_drops_our_copies_of_what_rust_makes_and_says_what_comes_next(
    at_revision_18: Callable[..., Ran],
) -> None:
    refused, done = at_revision_18("schema", "give-way"), at_revision_18("schema", "give-way", "--yes")

    assert (refused.code, "nothing was changed" in refused.err) == (1, True)
    assert done.out.startswith("Dropped: delete_stale_workers, ")
    assert "Start the Rust worker now" in done.out
    assert "Nothing to do: the schema" in at_revision_18("schema", "give-way", "--yes").out
    assert at_revision_18("schema", "status").code == 1
    taken_back = at_revision_18("migrate").out.splitlines()
    assert (taken_back[0].startswith("Adopted"), taken_back[1].startswith("Note: ")) == (True, True)


def test_give_way_is_refused_while_workers_are_registered_unless_forced(
    at_revision_18: Callable[..., Ran], connection: psycopg.Connection
) -> None:
    connection.execute("select graphile_worker.worker_heartbeat('ferryman-1')")

    refused = at_revision_18("schema", "give-way", "--yes")

    assert (refused.code, "ferryman-1" in refused.err) == (1, True)
    assert at_revision_18("schema", "give-way", "--yes", "--force", "--json").json["dropped"][-1] == "_private_workers"
