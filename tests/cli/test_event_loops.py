"""Which event loop runs the jobs."""

from __future__ import annotations

import pytest

from ferryman.cli.event_loops import loop_factory
from ferryman.errors import ConfigurationError


def test_python_s_own_loop_serves_where_uvloop_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ferryman.cli.event_loops.find_spec", lambda _: None)

    assert loop_factory() is None
    with pytest.raises(ConfigurationError, match=r"uvloop is not installed.*pip install 'ferryman\[uvloop\]'"):
        loop_factory("uvloop")
