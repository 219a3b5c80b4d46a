"""Everything that PostgreSQL's catalogue says about a schema, as text that two schemas can be compared by."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg

from tests.support.carrying import DEFAULT_SCHEMA

if TYPE_CHECKING:
    from collections.abc import Iterable

OURS = frozenset(
    {
        "_ferryman_crashes",
        "_ferryman_jobs_by_queue",
        "_ferryman_jobs_by_task",
        "_ferryman_lost_workers",
        "_ferryman_mark_superseded",
        "_ferryman_migrations",
        "_ferryman_progress",
        "_ferryman_queued_jobs_by_task",
        "_ferryman_schedule_flags",
        "_ferryman_schedules",
        "_ferryman_started_jobs",
        "_ferryman_task_policies",
        "_ferryman_worker_states",
        "_private_workers",
        "delete_stale_workers",
        "list_orphan_locked_workers",
        "list_stale_workers",
        "recover_dead_worker_jobs",
        "worker_deregister",
        "worker_heartbeat",
    }
)
"""What our extensions put beside Graphile's objects."""
DERIVED = ("_pkey", "_idx", "_seq")
"""How names end that PostgreSQL makes of the name of a table."""

SCHEMA = (
    "select coalesce(nspacl::text, 'default privileges'), obj_description(oid) from pg_namespace where oid = %(schema)s"
)
RELATIONS = """
    select relname, relkind, relpersistence, relrowsecurity, relforcerowsecurity, relreplident, reloptions::text,
           relispartition, relacl::text, am.amname, obj_description(class.oid, 'pg_class')
    from pg_class as class left join pg_am as am on am.oid = relam
    where relnamespace = %(schema)s
"""
COLUMNS = """
    select class.relname, attnum, attname, format_type(atttypid, atttypmod), attnotnull, attidentity, attgenerated,
           attstorage, attcompression, attcollation::regcollation::text, attstattarget is null or attstattarget = -1,
           pg_get_expr(adbin, adrelid), attacl::text, col_description(class.oid, attnum)
    from pg_class as class
    join pg_attribute on attrelid = class.oid and attnum > 0
    left join pg_attrdef on adrelid = class.oid and adnum = attnum
    where relnamespace = %(schema)s and relkind in ('r', 'v', 'c')
"""
CONSTRAINTS = """
    select class.relname, conname, contype, pg_get_constraintdef(con.oid), condeferrable, convalidated,
           obj_description(con.oid, 'pg_constraint')
    from pg_constraint as con join pg_class as class on class.oid = conrelid
    where connamespace = %(schema)s
"""
INDEXES = """
    select case when starts_with(index.relname::text, '_ferryman') then index.relname else class.relname end,
           pg_get_indexdef(indexrelid), indisunique, indisprimary, indisvalid, indisreplident
    from pg_index
    join pg_class as class on class.oid = indrelid
    join pg_class as index on index.oid = indexrelid
    where class.relnamespace = %(schema)s
"""
SEQUENCES = """
    select class.relname, format_type(seqtypid, null), seqstart, seqincrement, seqmax, seqmin, seqcache, seqcycle,
           owner.relname, dep.refobjsubid, dep.deptype
    from pg_sequence
    join pg_class as class on class.oid = seqrelid
    left join pg_depend as dep
        on dep.classid = 'pg_class'::regclass and dep.objid = class.oid and dep.refclassid = 'pg_class'::regclass
    left join pg_class as owner on owner.oid = dep.refobjid
    where class.relnamespace = %(schema)s
"""
VIEWS = "select relname, pg_get_viewdef(oid) from pg_class where relnamespace = %(schema)s and relkind = 'v'"
TYPES = """
    select coalesce(element.typname, type.typname), type.typname, type.typtype, type.typcategory, type.typacl::text,
           obj_description(type.oid, 'pg_type')
    from pg_type as type left join pg_type as element on element.oid = type.typelem
    where type.typnamespace = %(schema)s
"""
FUNCTIONS = """
    select proname, pg_get_function_arguments(function.oid), pg_get_function_result(function.oid), lanname, prokind,
           provolatile, proisstrict, prosecdef, proleakproof, proretset, proparallel, procost, prorows,
           proconfig::text, proacl::text, obj_description(function.oid, 'pg_proc')
    from pg_proc as function join pg_language as language on language.oid = prolang
    where pronamespace = %(schema)s
"""
TRIGGERS = """
    select case when starts_with(tgname::text, '_ferryman') then tgname else class.relname end,
           tgname, pg_get_triggerdef(pg_trigger.oid)
    from pg_trigger join pg_class as class on class.oid = tgrelid
    where relnamespace = %(schema)s
"""
POLICIES = """
    select class.relname, polname from pg_policy join pg_class as class on class.oid = polrelid
    where relnamespace = %(schema)s
"""
BODIES = "select proname, prosrc from pg_proc where pronamespace = %(schema)s"
LEDGER = "select id, breaking from {}.migrations"

QUERIES = {
    "schema": SCHEMA,
    "relation": RELATIONS,
    "column": COLUMNS,
    "constraint": CONSTRAINTS,
    "index": INDEXES,
    "sequence": SEQUENCES,
    "view": VIEWS,
    "type": TYPES,
    "function": FUNCTIONS,
    "trigger": TRIGGERS,
    "policy": POLICIES,
}


def catalogue(
    dsn: str, schema: str = DEFAULT_SCHEMA, *, with_bodies: bool = False, without: Iterable[str] = ()
) -> list[str]:
    """One line for each fact, sorted; objects whose name is in `without` are left out."""
    queries = {**QUERIES, "body": BODIES} if with_bodies else QUERIES
    hidden = set(without)
    with psycopg.connect(dsn) as connection:
        oid = {"schema": connection.execute("select to_regnamespace(quote_ident(%s))::oid", [schema]).fetchone()[0]}
        facts = {kind: connection.execute(query, oid).fetchall() for kind, query in queries.items()}
        facts["ledger"] = _ledger(connection, schema)
    return sorted(
        f"{kind}: {row}" for kind, rows in facts.items() for row in rows if not (hidden and _belongs_to(row, hidden))
    )


def _ledger(connection: psycopg.Connection, schema: str) -> list[tuple[int, bool]]:
    identifier = psycopg.sql.Identifier(schema)
    return connection.execute(psycopg.sql.SQL(LEDGER).format(identifier)).fetchall()


def _belongs_to(row: tuple[object, ...], hidden: set[str]) -> bool:
    owner = str(row[0])
    return any(owner == name or (owner.startswith(f"{name}_") and owner.endswith(DERIVED)) for name in hidden)
