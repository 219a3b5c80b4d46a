"""What the judge of poisonous jobs finds in histories that are made up."""

from __future__ import annotations

from typing import Any

from benchmarks.kill.poisoning import judge_poison


def history(*, exits: int = 3, failed: tuple[int, ...] = (1,)) -> list[dict[str, Any]]:
    return [
        *({"event": "added", "number": number} for number in (1, 2)),
        {"event": "poisonous", "numbers": [1, 9]},
        *({"event": "exiting", "number": 1} for _ in range(exits)),
        *({"event": "left", "number": number} for number in failed),
    ]


def breaches(lines: list[dict[str, Any]]) -> list[str]:
    return [breach.text for breach in judge_poison(lines)[1]]


def test_a_poisonous_job_that_fails_at_its_third_death_is_fine() -> None:
    assert breaches(history()) == []
    assert judge_poison(history())[0].startswith("3 deaths by 1 poisonous jobs among 2 (1 killed 3); 0 of the others")


def test_whatever_goes_wrong_beside_poison_is_found() -> None:
    assert breaches(history(failed=(1, 2))) == ["job 2 did no harm and failed"]
    assert breaches(history(failed=())) == ["job 1 is poisonous and has not failed"]
    assert breaches(history(exits=4)) == ["job 1 killed 4 workers"]
