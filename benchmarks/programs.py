"""Starts drivers and talks to them; drivers/contract.py says what they understand."""

from __future__ import annotations

import json
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from types import TracebackType

    from benchmarks.products import Product


PATIENCE_SECONDS = 120.0


class DriverError(Exception):
    """A driver ended when it should not have, or did not do what it was asked to."""


class Program:
    """A driver that runs in one of its roles, for the length of a `with` block."""

    def __init__(self, product: Product, role: str, url: str, settings: dict[str, Any]) -> None:
        self._product, self._role = product, role
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the program
        self._process = subprocess.Popen(
            [*product.command, role, json.dumps(settings)],
            env=product.environment(url),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()
        self._errors.close()

    def check(self) -> None:
        """Raise `DriverError` unless the driver is running."""
        if self._process.poll() is not None:
            raise DriverError(
                f"{self._product.name}, {self._role}: ended with {self._process.returncode}\n{self._said()}"
            )

    def wait(self) -> None:
        """Wait until the driver ends by itself."""
        try:
            status = self._process.wait(timeout=PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            raise DriverError(f"{self._product.name}, {self._role}: did not end") from None
        if status:
            self.check()

    def ready(self) -> Self:
        """Wait until the driver has loaded everything."""
        self._answer()
        return self

    def send(self, order: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        try:
            print(json.dumps(order), file=self._process.stdin, flush=True)
        except BrokenPipeError:
            raise DriverError(f"{self._product.name}, {self._role}: ended early\n{self._said()}") from None

    def ask(self, order: dict[str, Any]) -> Any:
        self.send(order)
        return self._answer()

    def memory(self) -> dict[str, float]:
        """Return the megabytes in memory now, and the most so far. Empty where there is no /proc."""
        try:
            lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        except OSError:
            return {}
        found = {
            line.split(":")[0]: float(line.split()[1]) / 1024 for line in lines if line.startswith(("VmRSS", "VmHWM"))
        }
        return {"now": found["VmRSS"], "most": found["VmHWM"]}

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        # One that hangs must not take the whole run with it.
        patience = threading.Timer(PATIENCE_SECONDS, self._process.kill)
        patience.start()
        try:
            for line in self._process.stdout:
                if line.startswith("{"):
                    return json.loads(line)
        finally:
            patience.cancel()
        self._process.wait(timeout=10)
        raise DriverError(f"{self._product.name}, {self._role}: no answer\n{self._said()}")

    def _said(self) -> str:
        self._errors.seek(0)
        return self._errors.read().decode(errors="replace")[-3000:]
