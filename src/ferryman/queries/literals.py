"""Values as text that PostgreSQL reads by itself: cheaper than lists, whose elements the driver looks at one by one."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable


def array(values: Iterable[int | str]) -> str:
    """An array literal."""
    return "{" + ",".join(map(str, values)) + "}"


def arrays_by_token(claims: Iterable[tuple[int, int]]) -> tuple[str, str]:
    """Two array literals: the tokens of these claims, and for each the array literal of its jobs."""
    job_ids: dict[int, list[str]] = defaultdict(list)
    for job_id, token in claims:
        job_ids[token].append(str(job_id))
    if not job_ids:
        return "{}", "{}"
    return array(job_ids), '{"{' + '}","{'.join([",".join(each) for each in job_ids.values()]) + '}"}'


def json_text(value: object) -> str:
    """A JSON document."""
    return msgspec.json.encode(value).decode()
