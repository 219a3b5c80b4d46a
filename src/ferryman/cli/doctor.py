"""`ferryman doctor`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from ferryman import Repair, Severity, Tuning
from ferryman.cli.clean import clean_line
from ferryman.cli.commands import confirm, database_command, yes_option
from ferryman.cli.tuning import run_tuning

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType

    from ferryman import Finding, HealthReport, Repaired, SyncClient
    from ferryman.cli.tuning import TuningReport

_STYLES = {Severity.OK: "green", Severity.NOTICE: "cyan", Severity.WARNING: "yellow", Severity.ERROR: "bold red"}
_PLANS = {
    Repair.WEDGED_QUEUES: "Free queues that are locked by a worker that is gone and has no job in them.",
    Repair.DANGLING_QUEUES: "Give jobs whose queue was deleted a queue with a made-up name. They run after that.",
    Repair.DANGLING_TASKS: "Give jobs whose task was deleted a task with a made-up name. They are seen after that.",
    Repair.LEFTOVERS: "Delete start marks and reports of progress of claims that are over.",
    Repair.UNUSED_QUEUES: "Delete queues without jobs.",
    Repair.UNUSED_TASKS: (
        "Delete tasks without jobs that no registered worker and no schedule has. Node and Rust workers that serve "
        "them must be restarted."
    ),
}
_DONE = {
    Repair.WEDGED_QUEUES: "Freed queues",
    Repair.DANGLING_QUEUES: "Made queues",
    Repair.DANGLING_TASKS: "Made tasks",
    Repair.LEFTOVERS: "Deleted leftovers",
    Repair.UNUSED_QUEUES: "Deleted unused queues",
    Repair.UNUSED_TASKS: "Deleted unused tasks",
}
_TUNINGS = click.Choice([tuning.value for tuning in Tuning])
INDENT = "         "
MOST_NAMED = 10


@dataclass(frozen=True, slots=True)
class DoctorReport:
    """What was mended, and what was seen after that."""

    health: HealthReport
    repaired: Sequence[Repaired] | None
    """None when nobody asked for repairs."""

    @property
    def exit_code(self) -> int:
        """0 when nothing is worse than a notice."""
        return 0 if self.health.is_healthy else 1

    def document(self) -> object:
        """The verdict, every finding, and every repair."""
        return {
            "schema": self.health.schema,
            "healthy": self.health.is_healthy,
            "severity": self.health.severity.value,
            "findings": [_finding_document(finding) for finding in self.health.findings],
            "repaired": [
                {"repair": one.repair.value, "number": one.number, "names": one.names} for one in self.repaired or ()
            ],
        }

    def lines(self) -> Iterator[RenderableType]:
        """Repairs first, then the findings, with what to do about them, and the verdict."""
        for one in self.repaired or ():
            yield f"{_DONE[one.repair]}: {_amount(one)}"
        if self.repaired is not None:
            yield "" if self.repaired else "There was nothing to mend.\n"
        for finding in self.health.findings:
            yield from _finding_lines(finding)
        yield f"\n{self._verdict()}"

    def _verdict(self) -> str:
        worst = [finding for finding in self.health.findings if finding.severity.rank > Severity.NOTICE.rank]
        if not worst:
            return "All is well." if self.health.severity is Severity.OK else "Nothing is worse than a notice."
        verdict = f"Findings that need attention: {len(worst)}."
        if self.repaired is None and self.health.repairs:
            verdict += " Some can be mended here: ferryman doctor --fix"
        return verdict


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


def _finding_lines(finding: Finding) -> Iterator[RenderableType]:
    label = (finding.severity.value.ljust(len(INDENT)), _STYLES[finding.severity])
    yield Text.assemble(label, (finding.check.replace("_", " "), "bold"), ": ", clean_line(finding.seen))
    if finding.meaning is not None:
        yield INDENT + clean_line(finding.meaning)
    for remedy in finding.remedies:
        yield Text(f"{INDENT}> {clean_line(remedy)}", "bold")


def _amount(one: Repaired) -> str:
    if not one.number or not one.names:
        return str(one.number or "none")
    more = len(one.names) - MOST_NAMED
    return ", ".join(map(clean_line, one.names[:MOST_NAMED])) + (f" and {more:,} more" if more > 0 else "")


@click.command()
@click.option("--fix", is_flag=True, help="Mend what can be mended in the data, after asking.")
@click.option("--tasks", "with_tasks", is_flag=True, help="With --fix: delete unused tasks too, if there are many.")
@click.option("--tune", type=_TUNINGS, help="Change an option of the tables that is never a default, after asking.")
@click.option("--untune", type=_TUNINGS, help="Take such an option back, after asking.")
@yes_option
@database_command
def doctor(
    client: SyncClient, *, fix: bool, with_tasks: bool, tune: str | None, untune: str | None, yes: bool
) -> DoctorReport | TuningReport:
    """Look for what ails the queue or its database, and mend it.

    Looking changes nothing. --fix frees queues of dead workers, gives jobs back a queue or task that was deleted under
    them, and clears away what nobody needs; workers and producers may go on meanwhile, and the lock of a worker that
    may live is never touched.

    --tune key-index lets the index of job keys store each entry by itself: claims of jobs without a key cost the server
    less, and the index takes about three times the space. --untune key-index takes it back. Neither looks at anything
    else.

    Exit code 0: nothing is worse than a notice. 1: something is, or the database could not be asked.

    \b
    Example:
      ferryman doctor
      ferryman doctor --fix --yes
      ferryman doctor --tune key-index
      ferryman doctor --json | jq '.findings[] | select(.severity != "ok")'
    """
    if with_tasks and not fix:
        raise click.UsageError("--tasks says what to mend: give it together with --fix.")
    if (wanted := tune or untune) is not None:
        if fix or (tune and untune):
            raise click.UsageError("--tune and --untune change one option, and nothing else: give one of them, alone.")
        return run_tuning(client, Tuning(wanted), is_wanted=tune is not None, yes=yes)
    health = client.check_health()
    if not fix:
        return DoctorReport(health, None)
    repairs = [repair for repair in health.repairs if with_tasks or repair is not Repair.UNUSED_TASKS]
    if not repairs:
        return DoctorReport(health, ())
    confirm("\n".join(_PLANS[repair] for repair in repairs), "Mend?", yes=yes)
    repaired = client.repair_health(repairs)
    return DoctorReport(client.check_health(), repaired)
