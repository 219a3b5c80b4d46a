"""Ferryman's own migrations (extensions): they add objects to Graphile's schema, and can all be undone.

A table of our own (the ledger) records them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ferryman.database.statements import Statement, load_statement
from ferryman.database.steps import Call, Script
from ferryman.schema.contract import BODIES, schema_statement
from ferryman.schema.facts import EXTENSION_LEDGER, RUST_WORKERS
from ferryman.schema.installing import replace_functions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ferryman.database.steps import Steps
    from ferryman.schema.facts import Facts

_READ_NAMES = schema_statement("read_names")
_RECORD = schema_statement("record_extension")


class Extension(msgspec.Struct, frozen=True):
    """A set of objects that are made together. Each part has a file that makes it, and one, `drop_…`, that drops it."""

    id: int
    name: str
    parts: tuple[str, ...]
    is_shared: bool = False
    """True if Rust makes objects of these names too: only absent parts are made, and only our own are dropped."""
    is_needed: bool = True
    """True if workers need it: one that starts then installs it (`migrating.migrate_for_work`), or fails.

    Our statements work without the others, at a higher price; a starting worker tries once to install them.
    """
    renews: tuple[str, ...] = ()
    """Functions of an earlier, shared extension that get a new body, if we made them and Rust has not replaced them."""
    alters: tuple[str, ...] = ()
    """Functions that keep their bodies and are altered by a file `alter_…`, under the same condition."""
    renews_contract: bool = False
    """True if Graphile's functions get our newest bodies where they have older ones of ours."""


EXTENSIONS = (
    Extension(
        1,
        "worker recovery",
        (
            "_private_workers",
            "worker_heartbeat",
            "worker_deregister",
            "list_stale_workers",
            "list_orphan_locked_workers",
            "recover_dead_worker_jobs",
            "delete_stale_workers",
        ),
        is_shared=True,
    ),
    Extension(
        2,
        "crash policies",
        ("_ferryman_crashes", "_ferryman_lost_workers", "_ferryman_task_policies", "_ferryman_started_jobs"),
    ),
    Extension(3, "schedules", ("_ferryman_schedules",)),
    Extension(4, "indexes for claiming", ("_ferryman_jobs_by_task", "_ferryman_queued_jobs_by_task")),
    Extension(5, "progress of jobs", ("_ferryman_progress",)),
    Extension(6, "flags of schedules", ("_ferryman_schedule_flags",)),
    Extension(7, "order of queues by id", ("_ferryman_jobs_by_queue",), is_needed=False),
    Extension(
        8,
        "superseded jobs",
        ("_ferryman_mark_superseded",),
        is_needed=False,
        renews=("recover_dead_worker_jobs",),
    ),
    Extension(9, "states of workers", ("_ferryman_worker_states",)),
    Extension(
        10,
        "names that functions use",
        (),
        is_needed=False,
        alters=(
            "worker_heartbeat",
            "worker_deregister",
            "list_stale_workers",
            "list_orphan_locked_workers",
            "recover_dead_worker_jobs",
            "delete_stale_workers",
            "_ferryman_mark_superseded",
        ),
        renews_contract=True,
    ),
)
LATEST_EXTENSION = EXTENSIONS[-1].id
[SHARED] = [extension for extension in EXTENSIONS if extension.is_shared]
"""The extension whose objects a Rust worker makes too, unless they exist."""


def has_given_way(facts: Facts) -> bool:
    """True if `give_way` dropped our copies of a Rust worker's objects, and no Rust worker has made its own yet."""
    is_recorded = any(extension.id == SHARED.id for extension in facts.extensions)
    return is_recorded and RUST_WORKERS not in facts.relations


def missing_extensions(facts: Facts) -> list[Extension]:
    """Return the extensions that this version has and the schema lacks."""
    present = {extension.id for extension in facts.extensions}
    if has_given_way(facts):
        present.remove(SHARED.id)
    return [extension for extension in EXTENSIONS if extension.id not in present]


def install_extensions(facts: Facts, *, only_needed: bool = False) -> Steps[None]:
    """Install missing extensions, in order, inside the transaction that is open.

    only_needed: True to leave out those that workers can do without
    """
    if EXTENSION_LEDGER not in facts.relations:
        yield Script(_extension_statement("ledger"))
    for extension in missing_extensions(facts):
        if extension.is_needed or not only_needed:
            yield from _install(facts, extension)


def drop_extensions(facts: Facts, *, keep_shared: bool) -> Steps[tuple[str, ...]]:
    """Drop what our migrations made, newest first, and their record. Returns the names of the dropped objects.

    keep_shared: True to leave the objects of the shared extension
    """
    known = {extension.id: extension for extension in EXTENSIONS}
    dropped: list[str] = []
    for applied in reversed(facts.extensions):
        if keep_shared and known[applied.id].is_shared:
            continue
        for part in reversed(applied.made):
            yield Script(_extension_statement(f"drop_{part}"))
            dropped.append(part)
    yield Script(_extension_statement("drop_ledger"))
    return (*dict.fromkeys(dropped), EXTENSION_LEDGER)


def drop_shared(facts: Facts) -> Steps[tuple[str, ...]]:
    """Drop what we made of the shared extension, and record in the ledger that none of it is ours any more."""
    made = next((extension.made for extension in facts.extensions if extension.id == SHARED.id), ())
    for part in reversed(made):
        yield Script(_extension_statement(f"drop_{part}"))
    yield Call(_RECORD, {"id": SHARED.id, "extension": SHARED.name, "made": []})
    return tuple(reversed(made))


def _install(facts: Facts, extension: Extension) -> Steps[None]:
    parts: Sequence[str] = extension.parts
    if extension.is_shared:
        parts = yield from _absent(facts, parts)
    for part in parts:
        yield Script(_extension_statement(part))
    for part in _kept(facts, extension.renews):
        yield Script(_extension_statement(part))
    for part in _kept(facts, extension.alters):
        yield Script(_extension_statement(f"alter_{part}"))
    if extension.renews_contract and 0 < facts.bodies < BODIES and not facts.is_rust_migrated:
        yield from replace_functions()
    yield Call(_RECORD, {"id": extension.id, "extension": extension.name, "made": list(parts)})


def _kept(facts: Facts, names: Sequence[str]) -> list[str]:
    """Return the functions that we made and Rust has not replaced: its migrations replace those that it knows."""
    shared = {part for extension in EXTENSIONS if extension.is_shared for part in extension.parts}
    return [name for name in names if name in facts.made and not (facts.is_rust_migrated and name in shared)]


def _absent(facts: Facts, names: Sequence[str]) -> Steps[Sequence[str]]:
    rows = yield Call(_READ_NAMES, {"name": facts.schema.name, "names": list(names)})
    taken = {name for (name,) in rows}
    return [name for name in names if name not in taken]


def _extension_statement(name: str) -> Statement:
    return load_statement("ferryman.schema", f"sql/extensions/{name}")
