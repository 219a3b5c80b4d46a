"""Functions, operators and types under the names of PostgreSQL's own, which no statement of ours may find.

A role's search_path puts them before PostgreSQL's own. The role may not execute them: a statement that would call one
fails before it begins, even where the call would never be reached.
"""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
from psycopg.conninfo import make_conninfo

import ferryman

if TYPE_CHECKING:
    from collections.abc import Iterator

_numbers = count()
_COMMENT = re.compile(r"--.*$", re.MULTILINE)
_LITERAL = re.compile(r"'[^']*'")
_OPERATOR = re.compile(r"[-+*/<>=~!@#%^&|?]+")
PLANT = """
    do $plant$
    declare
        home text := '{home}';
        made record;
    begin
        for made in
            select proname, pg_get_function_arguments(oid) as arguments, pg_get_function_result(oid) as result
            from pg_proc
            where pronamespace = 'pg_catalog'::regnamespace and prokind = 'f' and proname = any({words})
                and 'internal'::regtype <> all(proargtypes::regtype[])
        loop
            execute format(
                'create function %I.%I(%s) returns %s language internal as ''int4eq''',
                home, made.proname, made.arguments, made.result
            );
        end loop;
        for made in
            select proname, coalesce(nullif(pg_get_function_arguments(oid), ''), '*') as arguments, aggtransfn,
                format_type(aggtranstype, null) as state, agginitval,
                case when aggfinalfn <> 0 then format(', finalfunc = %s', aggfinalfn) end as final,
                case when aggfinalextra then ', finalfunc_extra' end as extra
            from pg_proc join pg_aggregate on aggfnoid = oid
            where pronamespace = 'pg_catalog'::regnamespace and aggkind = 'n' and proname = any({words})
                and aggtranstype::regtype::text not in ('record', 'anyenum', 'anyarray')
        loop
            execute format(
                'create aggregate %I.%I(%s) (sfunc = %s, stype = %s%s%s%s)',
                home, made.proname, made.arguments, made.aggtransfn, made.state, made.final, made.extra,
                ', initcond = ' || quote_literal(made.agginitval)
            );
        end loop;
        for made in
            select
                pg_operator.oid, oprname, nullif(oprleft, 0)::regtype as left_type, oprright::regtype as right_type,
                oprresult::regtype as result
            from pg_operator
            where oprnamespace = 'pg_catalog'::regnamespace and oprname = any({operators})
        loop
            execute format(
                'create function public.impostor_%s(%s%s) returns %s language internal as ''int4eq''',
                made.oid, made.left_type::text || ',', made.right_type, made.result
            );
            execute format(
                'create operator public.%s (%srightarg = %s, function = public.impostor_%s)',
                made.oprname, 'leftarg = ' || made.left_type || ',', made.right_type, made.oid
            );
        end loop;
        for made in
            select typname, format_type(oid, null) as type
            from pg_type
            where typnamespace = 'pg_catalog'::regnamespace and typtype = 'b' and typname = any({words})
        loop
            execute format('create domain %I.%I as %s check (false)', home, made.typname, made.type);
        end loop;
        execute format('revoke execute on all routines in schema %I, public from public', home);
    end $plant$
"""


@contextmanager
def surrounded(dsn: str) -> Iterator[str]:
    """The address of the database for a role that meets impostors first: in its own schema, and in public."""
    role = f"surrounded_{os.getpid()}_{next(_numbers)}"
    words, operators = _names()
    with psycopg.connect(dsn, autocommit=True) as owner:
        name = owner.info.dbname
        owner.execute(f"create role {role} login bypassrls password 'known'")
        owner.execute(f"grant create on database {name} to {role}")
        owner.execute(f"create schema {role}; grant usage on schema {role} to {role}")
        owner.execute(PLANT.format(home=role, words=_array(words), operators=_array(operators)))
        owner.execute(f"alter role {role} in database {name} set search_path = '$user', public, pg_catalog")
        try:
            yield make_conninfo(dsn, user=role, password="known")
        finally:
            owner.execute(f"drop owned by {role} cascade; drop schema {role} cascade; drop role {role}")


def _names() -> tuple[set[str], set[str]]:
    """The words and the operators of all our statements."""
    words: set[str] = set()
    operators: set[str] = set()
    for package in ("queries", "database", "schema"):
        for file in (Path(ferryman.__file__).parent / package).rglob("*.sql"):
            text = _LITERAL.sub("", _COMMENT.sub("", file.read_text(encoding="utf-8")))
            words.update(re.findall(r"[a-z_0-9]+", text))
            operators.update(_OPERATOR.findall(text))
    return words, operators


def _array(names: set[str]) -> str:
    return "array[" + ", ".join(f"'{name}'" for name in sorted(names)) + "]"
