# `make test` and `make demo` do all their own set-up: they need Python 3.11 or newer, and nothing else.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help demo test check bench clean

help:  ## Show these commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

demo: $(VENV)/ready  ## Show Ferryman working on a private PostgreSQL
	@$(BIN)/python examples/demo.py

test: check  ## Check style, types and imports, then run every test
	@$(BIN)/pytest

check: $(VENV)/ready
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy
	@$(BIN)/lint-imports

bench: $(VENV)/ready  ## Measure enqueueing beside the bare SQL functions and Node
	@$(BIN)/python -m benchmarks.enqueue

$(VENV)/ready: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Ferryman needs Python 3.11 or newer; try: make PYTHON=python3.12 ..." >&2; exit 1; }
	@echo "Setting up $(VENV) (first run only)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install --quiet --upgrade 'pip>=25.1'
	@$(BIN)/pip install --quiet --editable '.[embedded]' --group dev
	@touch $@

clean:  ## Remove everything that the other commands made
	rm -rf $(VENV) .cache dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
