# `make test` and `make demo` do all their own set-up: they need Python 3.11 or newer. The tests also need PgBouncer, and
# install it on Debian when they run as root.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
SHELL  := bash
.SHELLFLAGS := -o pipefail -c

.DEFAULT_GOAL := help
.PHONY: help demo test check bench proof clean

help:  ## Show these commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

demo: $(VENV)/ready  ## Show Ferryman working on a private PostgreSQL
	@$(BIN)/python examples/demo.py

test: check  ## Check style, types and imports, then run every test
	@$(BIN)/pytest --numprocesses auto --dist loadfile

check: $(VENV)/ready
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy
	@$(BIN)/lint-imports

bench: $(VENV)/ready  ## Measure Ferryman beside its peers; installs them first, and takes half an hour
	@$(BIN)/python -m benchmarks

proof: $(VENV)/ready  ## Kill workers ten thousand times, and judge by a history outside PostgreSQL
	@$(BIN)/python -m benchmarks.kill --kills 10000 --zombies 200 --seed 1 | tee docs/proof/kills-seed-1.txt
	@$(BIN)/python -m benchmarks.recovery_time --trials 100 | tee docs/proof/recovery-time.txt
	@$(BIN)/python -m benchmarks.recovery_time --trials 100 --pooler | tee docs/proof/recovery-time-pooler.txt

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
