"""The Rust crate as a live peer: what is said where it cannot be built."""

from __future__ import annotations

import sys

import pytest
from benchmarks.rust_peer.__main__ import main


def test_without_cargo_it_is_told_that_nothing_was_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(sys, "argv", ["benchmarks.rust_peer"])

    with pytest.raises(SystemExit, match="nothing was checked: cargo is not installed"):
        main()
