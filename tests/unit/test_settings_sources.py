from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ferryman.errors import ConfigurationError
from ferryman.settings import Settings

if TYPE_CHECKING:
    from pathlib import Path


def load(folder: Path, table: str = "", environ: dict[str, str] | None = None, **given: Any) -> Settings:
    if table:
        (folder / "pyproject.toml").write_text(table, encoding="utf-8")
    return Settings.load(given=given, environ=environ or {}, folder=folder)


def test_nothing_said_anywhere_means_graphiles_schema_and_one_mebibyte(tmp_path: Path) -> None:
    assert load(tmp_path) == Settings(database_url=None, schema="graphile_worker", max_payload_bytes=1_048_576)


def test_arguments_win_over_the_environment_which_wins_over_pyproject(tmp_path: Path) -> None:
    table = "[tool.ferryman]\ndatabase_url = 'file'\nschema = 'file'\nmax_payload_bytes = 1"

    settings = load(tmp_path, table, {"DATABASE_URL": "environment", "FERRYMAN_SCHEMA": "environment"}, schema="given")

    assert settings == Settings(database_url="environment", schema="given", max_payload_bytes=1)


def test_our_own_variable_wins_over_graphiles(tmp_path: Path) -> None:
    assert load(tmp_path, environ={"GRAPHILE_WORKER_SCHEMA": "theirs"}).schema == "theirs"
    assert load(tmp_path, environ={"GRAPHILE_WORKER_SCHEMA": "theirs", "FERRYMAN_SCHEMA": "ours"}).schema == "ours"


def test_an_empty_variable_says_nothing(tmp_path: Path) -> None:
    assert load(tmp_path, environ={"DATABASE_URL": "", "FERRYMAN_SCHEMA": ""}) == load(tmp_path)


def test_the_nearest_pyproject_above_the_working_directory_counts(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text("[tool.ferryman]\nschema = 'above'")

    assert load(inner).schema == "above"


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("embedded:state/db", "embedded:{folder}/state/db"),
        ("embedded:", "embedded:"),
        ("embedded:/srv/db", "embedded:/srv/db"),
        ("embedded:~/db", "embedded:~/db"),
        ("postgresql://host/embedded:x", "postgresql://host/embedded:x"),
    ],
)
def test_the_folder_of_an_embedded_server_in_pyproject_is_the_same_from_every_folder_below(
    tmp_path: Path, written: str, meant: str
) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text(f"[tool.ferryman]\ndatabase_url = {written!r}")

    assert load(inner).database_url == load(tmp_path).database_url == meant.format(folder=tmp_path)


def test_a_working_directory_that_is_gone_has_no_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()

    assert Settings.load(environ={}).schema == "graphile_worker"


@pytest.mark.parametrize("table", ["[project]\nname = 'x'", "tool = 5", "[tool.other]\na = 1"])
def test_a_pyproject_that_does_not_mention_us_is_no_trouble(tmp_path: Path, table: str) -> None:
    assert load(tmp_path, table).schema == "graphile_worker"


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("[tool.ferryman]\nshema = 'x'", "unknown setting 'shema' in .*pyproject.toml; did you mean 'schema'?"),
        ("[tool.ferryman]\ncolour = 'x'", "known settings: database_url, schema, max_payload_bytes"),
        ("[tool]\nferryman = 5", r"must be a table, \[tool.ferryman\]"),
        ("[tool.ferryman\n", "pyproject.toml could not be read"),
        ("[tool.ferryman]\nschema = 5", "schema must be the name of a schema; got 5"),
        ("[tool.ferryman]\nmax_payload_bytes = '9'", "max_payload_bytes must be a whole number from 1 to .*; got '9'"),
    ],
)
def test_a_wrong_pyproject_is_refused_with_a_hint(tmp_path: Path, table: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        load(tmp_path, table)


def test_a_wrong_number_in_the_environment_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="FERRYMAN_MAX_PAYLOAD_BYTES must be a whole number; got 'much'"):
        load(tmp_path, environ={"FERRYMAN_MAX_PAYLOAD_BYTES": "much"})


@pytest.mark.parametrize("size", [0, -1, True, 1.5, 1024**3])
def test_a_payload_limit_outside_what_postgresql_holds_is_refused(size: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"from 1 to 1,073,741,823; got {size}"):
        Settings(max_payload_bytes=size)


@pytest.mark.parametrize("schema", ["", None, 5])
def test_a_schema_must_be_a_name(schema: Any) -> None:
    with pytest.raises(ConfigurationError, match="schema must be the name of a schema"):
        Settings(schema=schema)


def test_a_database_url_that_is_not_text_is_refused_without_showing_it() -> None:
    with pytest.raises(ConfigurationError, match=r"^database_url must be a string, not bytes$"):
        Settings(database_url=b"postgresql://u:hunter2@h/d")


def test_the_database_url_is_never_printed() -> None:
    assert "hunter2" not in repr(Settings(database_url="postgresql://u:hunter2@h/d"))


MERGING = "<<<<<<< HEAD\n[project]\n"


def test_a_pyproject_that_cannot_be_parsed_is_no_obstacle_for_those_who_do_not_need_it(tmp_path: Path) -> None:
    file = tmp_path / "pyproject.toml"
    file.write_text(f"{MERGING}[tool.ferryman]\nschema = 'x'")
    given = {"database_url": "postgresql://a", "schema": "s"}
    assert Settings.load(given=given, environ={}, folder=tmp_path).schema == "s"
    with pytest.raises(ConfigurationError, match="could not be read"):
        Settings.load(given={"database_url": "postgresql://a"}, environ={}, folder=tmp_path)

    file.write_text(MERGING)
    assert Settings.load(given={}, environ={}, folder=tmp_path) == Settings()
