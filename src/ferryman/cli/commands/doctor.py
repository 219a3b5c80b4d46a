"""The command `ferryman doctor`, which checks a queue and its database, and repairs them if asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from ferryman import Repair, Severity, Tuning
from ferryman.cli.common_options import confirm, database_command, yes_option
from ferryman.cli.output import Report
from ferryman.cli.sanitize import clean_line
from ferryman.health.tuning import KEY_INDEX
from ferryman.health.wording import amount, counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType

    from ferryman import Finding, HealthReport, Repaired, SyncClient, Tuned

_STYLES = {Severity.OK: "green", Severity.NOTICE: "cyan", Severity.WARNING: "yellow", Severity.ERROR: "bold red"}
_PLANS = {
    Repair.WEDGED_QUEUES: "Free queues that a dead worker has locked without a job in them.",
    Repair.DANGLING_QUEUES: "Give each job whose queue was deleted a queue with a generated name, so that it can run.",
    Repair.DANGLING_TASKS: "Give each job whose task was deleted a task with a generated name, so that it is listed.",
    Repair.LEFTOVERS: "Delete start marks and progress of claims that have ended.",
    Repair.UNUSED_QUEUES: "Delete queues without jobs.",
    Repair.UNUSED_TASKS: (
        "Delete tasks that have no jobs, no registered worker and no schedule. Restart Node and Rust workers that run "
        "them."
    ),
}
_DONE = {
    Repair.WEDGED_QUEUES: "Freed queues",
    Repair.DANGLING_QUEUES: "Created queues",
    Repair.DANGLING_TASKS: "Created tasks",
    Repair.LEFTOVERS: "Deleted leftovers",
    Repair.UNUSED_QUEUES: "Deleted unused queues",
    Repair.UNUSED_TASKS: "Deleted unused tasks",
}
TUNE_PLAN = (
    f"The index {KEY_INDEX} of Graphile Worker will no longer deduplicate its entries. The server spends less on each\n"
    "claim of jobs without a key, and the index takes about three times the space. Nothing else changes: workers and\n"
    "producers continue, those of Node and Rust too. `ferryman doctor --untune key-index` undoes it.\n"
)
UNTUNE_PLAN = (
    f"The index {KEY_INDEX} of Graphile Worker will deduplicate its entries again, as it was made. Workers and\n"
    "producers continue. The index does not shrink at once: its pages are packed as new entries are added.\n"
)
_TUNINGS = click.Choice([tuning.value for tuning in Tuning])
INDENT = "         "
MOST_NAMED = 10


@click.command()
@click.option("--fix", is_flag=True, help="Repair the data where possible, after asking.")
@click.option("--tasks", "with_tasks", is_flag=True, help="With --fix: delete unused tasks too, if there are many.")
@click.option("--tune", type=_TUNINGS, help="Turn on an option of the tables that is off by default, after asking.")
@click.option("--untune", type=_TUNINGS, help="Turn such an option off again, after asking.")
@yes_option
@database_command
def doctor(
    client: SyncClient, *, fix: bool, with_tasks: bool, tune: str | None, untune: str | None, yes: bool
) -> Report:
    """Check the queue and its database for problems, and repair them.

    Checking changes nothing. --fix frees queues of dead workers, replaces queues and tasks that were deleted while they
    had jobs, and deletes leftovers. Workers and producers can continue meanwhile, and no lock is released whose worker
    may be alive.

    --tune key-index makes the index of job keys store each entry by itself: claims of jobs without a key cost the
    server less, and the index takes about three times the space. --untune key-index undoes it. Neither checks anything
    else.

    Exit code 0: nothing is worse than a notice. 1: something is, or the database did not answer.

    \b
    Example:
      ferryman doctor
      ferryman doctor --fix --yes
      ferryman doctor --tune key-index
      ferryman doctor --json | jq '.findings[] | select(.severity != "ok")'
    """
    if with_tasks and not fix:
        raise click.UsageError("--tasks says what to repair. Give it together with --fix.")
    if (wanted := tune or untune) is not None:
        if fix or (tune and untune):
            raise click.UsageError("--tune and --untune change one option and nothing else. Give one of them, alone.")
        return _tune(client, Tuning(wanted), is_wanted=tune is not None, yes=yes)
    health = client.check_health()
    if not fix:
        return _health_report(health, None)
    repairs = [repair for repair in health.repairs if with_tasks or repair is not Repair.UNUSED_TASKS]
    if not repairs:
        return _health_report(health, ())
    confirm("\n".join(_PLANS[repair] for repair in repairs), "Repair?", yes=yes)
    repaired = client.repair_health(repairs)
    return _health_report(client.check_health(), repaired)


def _health_report(health: HealthReport, repaired: Sequence[Repaired] | None) -> Report:
    """Report what was repaired, and what was found after that. repaired: None if no repair was asked for"""
    document = {
        "schema": health.schema,
        "healthy": health.is_healthy,
        "severity": health.severity.value,
        "findings": [_finding_document(finding) for finding in health.findings],
        "repaired": [{"repair": one.repair.value, "number": one.number, "names": one.names} for one in repaired or ()],
    }
    return Report(document, _health_lines(health, repaired), exit_code=0 if health.is_healthy else 1)


def _finding_document(finding: Finding) -> dict[str, Any]:
    return {
        "check": finding.check,
        "severity": finding.severity.value,
        "seen": finding.seen,
        "meaning": finding.meaning,
        "remedies": finding.remedies,
        "repair": None if finding.repair is None else finding.repair.value,
        "facts": finding.facts,
    }


def _health_lines(health: HealthReport, repaired: Sequence[Repaired] | None) -> Iterator[RenderableType]:
    """The lines that people read: repairs first, then the findings with what to do about them, and the verdict."""
    for one in repaired or ():
        yield f"{_DONE[one.repair]}: {_repaired_names(one)}"
    if repaired is not None:
        yield "" if repaired else "There was nothing to repair.\n"
    for finding in health.findings:
        yield from _finding_lines(finding)
    yield f"\n{_verdict(health, was_repaired=repaired is not None)}"


def _repaired_names(one: Repaired) -> str:
    if not one.number or not one.names:
        return str(one.number or "none")
    more = len(one.names) - MOST_NAMED
    return ", ".join(map(clean_line, one.names[:MOST_NAMED])) + (f" and {more:,} more" if more > 0 else "")


def _finding_lines(finding: Finding) -> Iterator[RenderableType]:
    label = (finding.severity.value.ljust(len(INDENT)), _STYLES[finding.severity])
    yield Text.assemble(label, (finding.check.replace("_", " "), "bold"), ": ", clean_line(finding.seen))
    if finding.meaning is not None:
        yield INDENT + clean_line(finding.meaning)
    for remedy in finding.remedies:
        yield Text(f"{INDENT}> {clean_line(remedy)}", "bold")


def _verdict(health: HealthReport, *, was_repaired: bool) -> str:
    worst = [finding for finding in health.findings if finding.severity.rank > Severity.NOTICE.rank]
    if not worst:
        return "No problem was found." if health.severity is Severity.OK else "Nothing is worse than a notice."
    verdict = f"Findings that need attention: {len(worst)}."
    if not was_repaired and health.repairs:
        verdict += " Repair what can be repaired: ferryman doctor --fix"
    return verdict


def _tune(client: SyncClient, tuning: Tuning, *, is_wanted: bool, yes: bool) -> Report:
    """Explain how --tune or --untune would change the index of job keys, ask for consent, and change it."""
    operation = client.tune if is_wanted else client.untune
    plan = operation(tuning, dry_run=True)
    if plan.statement is None:
        return _tuning_report(plan)
    confirm(_tuning_plan(plan, is_wanted=is_wanted), "Change the index?", yes=yes)
    return _tuning_report(operation(tuning))


def _tuning_plan(plan: Tuned, *, is_wanted: bool) -> str:
    jobs = f"{counted(plan.jobs, 'job')}, {plan.keyless_jobs:,} of them without a key"
    size = f"It has {amount(plan.size)} now, with {jobs}"
    if is_wanted:
        return f"{TUNE_PLAN}{size}, for which it would take about {amount(plan.expected_size)}.\n> {plan.statement}"
    return f"{UNTUNE_PLAN}{size}.\n> {plan.statement}"


def _tuning_report(done: Tuned) -> Report:
    """Report what --tune or --untune did to the index of job keys: its state before and after, and its size."""
    document = {
        "tuning": done.tuning.value,
        "was_on": done.was_on,
        "is_on": done.is_on,
        "statement": done.statement,
        "size": done.size,
        "expected_size": done.expected_size,
        "jobs": done.jobs,
        "keyless_jobs": done.keyless_jobs,
    }
    state = "does not deduplicate its entries" if done.is_on else "deduplicates its entries"
    if done.statement is None:
        return Report(document, [f"Nothing to do: {KEY_INDEX} {state} already. It has {amount(done.size)}."])
    return Report(document, [f"Done: {KEY_INDEX} {state} from now on.", f"> {done.statement}"])
