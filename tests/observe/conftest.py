from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ferryman import App, SyncClient
from tests.support.tracing_library import loadable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.observe.spans import Spans


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[Spans]:
    """The spans that have ended, of this test alone."""
    with loadable():
        from ferryman.observe import tracing  # noqa: PLC0415 - loads the library
        from tests.observe.spans import Spans  # noqa: PLC0415 - so does this

        made = Spans()
        monkeypatch.setattr(tracing.TRACING, "tracer", made.tracer)
        yield made


@pytest.fixture
def app(spans: Spans, database: str) -> App:
    """An application without tasks; each test defines its own."""
    return App(database)


@pytest.fixture
def client(app: App) -> Iterator[SyncClient]:
    with app.sync_client() as opened:
        yield opened
