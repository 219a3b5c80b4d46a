"""`ferryman doctor --tune` and `--untune`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ferryman.cli.commands import confirm
from ferryman.health.tuning import KEY_INDEX
from ferryman.health.wording import amount, counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ferryman import SyncClient, Tuned, Tuning

TUNE_PLAN = (
    f"The index {KEY_INDEX} of Graphile Worker will no longer deduplicate its entries. The server spends less on each\n"
    "claim of jobs without a key, and the index takes about three times the space. Nothing else changes: workers and\n"
    "producers continue, those of Node and Rust too. `ferryman doctor --untune key-index` takes it back.\n"
)
UNTUNE_PLAN = (
    f"The index {KEY_INDEX} of Graphile Worker will deduplicate its entries again, as it was made. Workers and\n"
    "producers continue. The index does not shrink at once: its pages are packed as new entries come.\n"
)


@dataclass(frozen=True, slots=True)
class TuningReport:
    """What was tuned, or taken back."""

    done: Tuned
    exit_code: int = 0

    def document(self) -> object:
        """The state before and after, the statement, and the figures."""
        return {
            "tuning": self.done.tuning.value,
            "was_on": self.done.was_on,
            "is_on": self.done.is_on,
            "statement": self.done.statement,
            "size": self.done.size,
            "expected_size": self.done.expected_size,
            "jobs": self.done.jobs,
            "keyless_jobs": self.done.keyless_jobs,
        }

    def lines(self) -> Iterator[str]:
        """What was done, and what it means for the size."""
        done = self.done
        if done.statement is None:
            yield f"Nothing to do: {KEY_INDEX} {_state(is_on=done.is_on)} already. It has {amount(done.size)}."
            return
        yield f"Done: {KEY_INDEX} {_state(is_on=done.is_on)} from now on."
        yield f"> {done.statement}"


def run_tuning(client: SyncClient, tuning: Tuning, *, is_wanted: bool, yes: bool) -> TuningReport:
    """Say what will be done, ask, and do it."""
    operation = client.tune if is_wanted else client.untune
    plan = operation(tuning, dry_run=True)
    if plan.statement is None:
        return TuningReport(plan)
    confirm(_plan(plan, is_wanted=is_wanted), "Change the index?", yes=yes)
    return TuningReport(operation(tuning))


def _plan(plan: Tuned, *, is_wanted: bool) -> str:
    jobs = f"{counted(plan.jobs, 'job')}, {plan.keyless_jobs:,} of them without a key"
    size = f"It has {amount(plan.size)} now, with {jobs}"
    if is_wanted:
        return f"{TUNE_PLAN}{size}, for which it would take about {amount(plan.expected_size)}.\n> {plan.statement}"
    return f"{UNTUNE_PLAN}{size}.\n> {plan.statement}"


def _state(*, is_on: bool) -> str:
    return "does not deduplicate its entries" if is_on else "deduplicates its entries"
