# `make` lists the targets. Each makes the environment (.venv) first when it is missing or out of date.
#
# Environment: torch by its pin (which build fits depends on the machine, see README.md), then everything else from the
# lock, with hashes, then Headwater itself in place. On Linux, get a CPU build of torch first if pip would take CUDA.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

TORCH := 2.13.0
PACKAGES := schemas storage flows query surface
# The first of these that is 3.11 or 3.12; `make PYTHON=...` overrides.
PYTHONS := python3.11 python3 python3.12
PYTHON ?= $(shell for p in $(PYTHONS); do $$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 13))' \
	>/dev/null 2>&1 && echo $$p && break; done)

BIN := .venv/bin
PIP := $(BIN)/pip --disable-pip-version-check -qq install --progress-bar off
# mypy does not read setuptools' package-dir: it sees each root folder X as .links/headwater/X.
LINKS := $(PACKAGES:%=.links/headwater/%)
SIM_TESTS := $(wildcard tests/simulation/test_*.py)
BENCHES := $(wildcard benchmarks/bench_*.py)

.PHONY: help demo test check bench sim dev lock clean

help:
	@echo "make demo    play two recorded sessions into a throw-away home and ask about them"
	@echo "make test    run the tests but for the simulation"
	@echo "make sim     run the simulation"
	@echo "make check   format, lint, types, import direction, form of the code"
	@echo "make bench   measure; writes benchmarks/results/"
	@echo "make dev     only make the environment (each target above does so when it is missing)"
	@echo "make lock    write requirements.lock anew;  make clean: remove what builds and tools left"

dev: .venv/.ready $(LINKS)
	@version=$$($(BIN)/headwater --version) && echo "ready: $$version, $$($(BIN)/python --version), in .venv"

.venv/.ready: pyproject.toml requirements.lock
	@if [ ! -x $(BIN)/python ]; then \
	    [ -n "$(PYTHON)" ] || { echo "Headwater needs Python 3.11 or 3.12; set one: make PYTHON=/path/to/python3.12" >&2; exit 1; }; \
	    echo "[1/4] .venv with $$($(PYTHON) --version)"; $(PYTHON) -m venv .venv; \
	fi
	@echo "[2/4] torch $(TORCH)"
	@$(PIP) torch==$(TORCH)
	@echo "[3/4] everything else, from requirements.lock"
	@$(PIP) --require-hashes --no-deps -r requirements.lock
	@echo "[4/4] headwater, in place"
	@$(PIP) --no-deps --no-build-isolation -e .
	@touch $@

.links/headwater/%:
	@mkdir -p .links/headwater
	@ln -sfn ../../$* $@

demo: .venv/.ready
	@$(BIN)/headwater demo

test: .venv/.ready $(LINKS)
	$(BIN)/python -m pytest -q -n 2 tests --ignore=tests/simulation

# pytest's 5 means that no test was selected: said aloud, not counted as a failure.
sim: .venv/.ready
ifeq ($(SIM_TESTS),)
	@echo "sim: there are no simulation tests (tests/simulation/test_*.py); nothing was run"
else
	@$(BIN)/python -m pytest -q -n 2 tests/simulation || { rc=$$?; [ $$rc -eq 5 ] || exit $$rc; \
	    echo "sim: no simulation test was selected; nothing was run"; }
endif

check: .venv/.ready $(LINKS)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy -p headwater
	$(BIN)/mypy tests $(wildcard benchmarks)
	$(BIN)/lint-imports --no-logo
	$(BIN)/python -m pytest -q tests/test_tidy.py

# One after the other, so that they do not disturb each other; each writes benchmarks/results/<its name>.json.
bench: .venv/.ready
ifeq ($(BENCHES),)
	@echo "bench: there are no benchmarks (benchmarks/bench_*.py); nothing was run"
else
	@mkdir -p benchmarks/results
	@for script in $(BENCHES); do echo "== $$script"; $(BIN)/python "$$script"; done
endif

# The lowest Python resolves, so that backports it needs are in the lock; the hashes cover both.
lock:
	@scripts/lock.sh python3.11 $(TORCH)

clean:
	rm -rf build dist *.egg-info .links .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +
