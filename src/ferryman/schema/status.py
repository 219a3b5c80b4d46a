"""Judges a schema: which program's objects it holds, and whether this version of Ferryman can use it.

`problem_of` decides: a breaking revision of Graphile's schema that is newer than ours is refused, a newer extension of
Ferryman's own is a warning.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from ferryman.schema import refusals
from ferryman.schema.contract import FUNCTIONS, OLDEST_REVISION, OLDEST_SERVER, RELATIONS, REVISION, TABLES
from ferryman.schema.extensions import LATEST_EXTENSION, has_given_way, missing_extensions
from ferryman.schema.facts import RUST_WORKERS, RUST_WORKERS_REVISION, Facts, read_facts

if TYPE_CHECKING:
    from ferryman.database.identifiers import SchemaName
    from ferryman.database.steps import Steps
    from ferryman.errors import SchemaError

SETTLING_SECONDS = 10.0
"""If the newest row of an incomplete ledger is younger than this, a migrator is still working on the schema."""
RUST_REVISION = 22
"""The newest revision of the Rust system that Ferryman knows. It breaks nothing of ours."""


class Layout(Enum):
    """The program whose objects a schema holds."""

    MISSING = "missing"
    """There is no schema of this name."""
    EMPTY = "empty"
    """The schema exists, perhaps with an empty ledger; nothing is installed."""
    GRAPHILE = "graphile"
    """Graphile Worker's objects, made by Node or by Ferryman."""
    RUST = "rust"
    """Graphile Worker's objects, migrated further by graphile_worker_rs."""
    FOREIGN = "foreign"
    """Objects of another program have names that Ferryman needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaStatus:
    """The state of a schema at one moment."""

    schema: str
    layout: Layout
    server_version: int
    """As PostgreSQL counts: 180006 is 18.6."""
    revision: int | None
    """The newest revision of Graphile's schema."""
    highest_breaking: int | None
    extension_revision: int | None
    """Ferryman's newest extension of this schema; None if there is none."""
    extension_latest: int = LATEST_EXTENSION
    """The newest extension that this version of Ferryman has."""
    functions_repaired: bool
    """True if add_job and add_jobs have Ferryman's bodies, which never lose a keyed job."""
    problem: SchemaError | None = field(default=None, compare=False)
    """The error of an attempt to use the schema; None if this version of Ferryman can use it."""
    warnings: tuple[str, ...] = ()

    @property
    def exists(self) -> bool:
        """True if there is a schema of this name."""
        return self.layout is not Layout.MISSING

    @property
    def compatible(self) -> bool:
        """True if this version of Ferryman can use the schema as it is."""
        return self.problem is None

    @property
    def reason(self) -> str | None:
        """Why the schema is not compatible; None if it is."""
        return None if self.problem is None else str(self.problem)


def inspect(schema: SchemaName) -> Steps[SchemaStatus]:
    """Read and judge a schema. Locks and changes nothing."""
    facts = yield from read_facts(schema)
    return judge(facts)


def judge(facts: Facts) -> SchemaStatus:
    """Judge a schema by what was read about it."""
    return SchemaStatus(
        schema=facts.schema.name,
        layout=layout_of(facts),
        server_version=facts.server_version,
        revision=facts.revision,
        highest_breaking=facts.highest_breaking,
        extension_revision=facts.extension_revision,
        functions_repaired=facts.bodies > 0,
        problem=problem_of(facts),
        warnings=(*warnings_of(facts), *_gaps_of(facts)),
    )


def layout_of(facts: Facts) -> Layout:
    """Return the program whose objects the schema holds."""
    if not facts.exists:
        return Layout.MISSING
    if collisions_of(facts):
        return Layout.FOREIGN
    if facts.revision is None:
        return Layout.EMPTY
    return Layout.RUST if _has_rust_traces(facts) else Layout.GRAPHILE


def collisions_of(facts: Facts) -> list[str]:
    """Return names that other objects have and Ferryman needs, or that Graphile's schema should have and lacks."""
    if facts.has_ledger and not facts.ledger_columns >= {"id", "ts"}:
        return ["migrations"]
    if facts.revision is None:
        return sorted(facts.relations.intersection(RELATIONS) | facts.functions.intersection(FUNCTIONS))
    if facts.revision >= OLDEST_REVISION:
        return sorted(set(TABLES) - facts.relations)
    return []


def is_under_way(facts: Facts) -> bool:
    """True if a migrator of Node's or Rust's seems to be working: they use one transaction for each revision."""
    if facts.revision is None or facts.revision >= OLDEST_REVISION:
        return False
    return min(migration.age_seconds for migration in facts.migrations) < SETTLING_SECONDS


def problem_of(facts: Facts) -> SchemaError | None:
    """Return why this version of Ferryman cannot use the schema; None if it can."""
    layout = layout_of(facts)
    if facts.server_version < OLDEST_SERVER:
        return refusals.server_too_old(facts)
    if layout is Layout.FOREIGN:
        return refusals.names_taken(facts, collisions_of(facts))
    if layout in {Layout.MISSING, Layout.EMPTY}:
        return refusals.not_installed(facts)
    return _revision_problem(facts)


def _revision_problem(facts: Facts) -> SchemaError | None:
    if (facts.highest_breaking or 0) > REVISION:
        return refusals.too_new(facts)
    if is_under_way(facts):
        return refusals.under_way(facts)
    if (facts.revision or 0) < OLDEST_REVISION:
        return refusals.too_old(facts)
    if has_given_way(facts):
        return refusals.given_way(facts)
    return None


def _has_rust_traces(facts: Facts) -> bool:
    return facts.is_rust_migrated or (RUST_WORKERS in facts.relations and RUST_WORKERS not in facts.made)


def warnings_of(facts: Facts) -> tuple[str, ...]:
    """Return warnings about a schema that can be used all the same."""
    warnings = []
    newest = RUST_REVISION if _has_rust_traces(facts) else REVISION
    if (facts.revision or 0) > newest:
        warnings.append(
            f"the schema {facts.schema} is at revision {facts.revision}; this version of Ferryman knows revisions up "
            f"to {newest}. None of the newer ones is marked as breaking, so Ferryman continues."
        )
    if (facts.extension_revision or 0) > LATEST_EXTENSION:
        warnings.append(
            f"a newer version of Ferryman has extended the schema {facts.schema} (extension "
            f"{facts.extension_revision}; this version has {LATEST_EXTENSION}). This version works without them."
        )
    if facts.is_rust_migrated and (facts.revision or 0) < RUST_WORKERS_REVISION and RUST_WORKERS in facts.made:
        warnings.append(
            f"a Rust worker has begun to migrate the schema {facts.schema} and cannot continue: its revision "
            f"{RUST_WORKERS_REVISION} makes objects that Ferryman has made already. Stop Ferryman's workers, run "
            f"`ferryman schema give-way`, and start the Rust worker before them."
        )
    return tuple(warnings)


def notices_of(facts: Facts) -> tuple[str, ...]:
    """Return advice about a schema that is about to be adopted."""
    if (facts.revision or REVISION) >= RUST_WORKERS_REVISION or RUST_WORKERS in facts.relations:
        return ()
    notice = (
        f"the schema {facts.schema} is at revision {facts.revision}. Before a Rust worker (graphile_worker) joins it, "
        f"run `ferryman schema give-way`: at revisions below {RUST_WORKERS_REVISION} it makes the table {RUST_WORKERS} "
        f"and its functions itself, and fails if Ferryman's exist."
    )
    return (notice,)


def _gaps_of(facts: Facts) -> tuple[str, ...]:
    """Return a warning about extensions that are missing although later ones are installed."""
    gaps = (each for each in missing_extensions(facts) if each.id < (facts.extension_revision or 0))
    missing = [each for each in gaps if not each.is_needed]
    if not missing:
        return ()
    names = ", ".join(f"extension {each.id} ({each.name})" for each in missing)
    warning = (
        f"{names} of the schema {facts.schema} was not installed together with later ones, because the table of jobs "
        f"was in use. Workers are slower without. Run `ferryman migrate` to install what is missing."
    )
    return (warning,)
