"""Asks the database for a sign of life, for those who ask whether we are ready."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NoReturn

from ferryman.errors import FerrymanError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ferryman import Client

SECONDS_BETWEEN = 3.0
SECONDS_BETWEEN_IN_TROUBLE = 0.5
SECONDS_FOR_AN_ANSWER = 3.0


async def watch_database(client: Client, tell: Callable[[bool], None]) -> NoReturn:
    """Tell again and again whether the database answers."""
    while True:
        does_answer = await _answers(client)
        tell(does_answer)
        await asyncio.sleep(SECONDS_BETWEEN if does_answer else SECONDS_BETWEEN_IN_TROUBLE)


async def _answers(client: Client) -> bool:
    try:
        async with asyncio.timeout(SECONDS_FOR_AN_ANSWER):
            await client.ping()
    except (FerrymanError, TimeoutError):
        return False
    return True
