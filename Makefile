# `make demo` and `make test` need python3 (3.11 or newer), git and make; they set up the rest.
# All paths are relative, so that the folder may have spaces in its name.

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready
CODE := fencepost harness workloads nemeses checkers reports bench tests

.PHONY: setup demo test chaos mutants lint docs bench clean

setup: $(READY)

# Newer than the two files that say what has to be installed, or made again.
$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Fencepost needs Python 3.11 or newer as $(PYTHON); name another: make PYTHON=python3.12" >&2; exit 2; }
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv || { \
	  echo "$(PYTHON) cannot make a virtual environment; on Debian: apt-get install python3-venv" >&2; exit 2; }
	@echo "installing what requirements.lock names into .venv (a minute or two, once)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --editable .
	@touch $(READY)

demo: setup
	@status=0; $(BIN)/fencepost run --time-limit 60 || status=$$?; \
	echo; echo "A run that catches a defect:"; \
	echo "  $(BIN)/fencepost run --defect offsets-outside-transaction"; \
	exit $$status

test: setup
	@$(BIN)/python -P -m pytest

# Hours: many seeds, every defect, runs that are killed.
chaos: setup
	@$(BIN)/python -P -m pytest --timeout 1200 tests/chaos

# Hours, and resumable: the checkers with one thing changed, each of which the tests must catch.
mutants: setup
	@PYTHONPATH=.:tests/exhaustive:tests/unit/checkers $(BIN)/python -m tests.mutants

lint: setup
	@$(BIN)/ruff check $(CODE)
	@$(BIN)/ruff format --check $(CODE)
	@$(BIN)/mypy

# The pages that are made from docstrings.
docs: setup
	@$(BIN)/python -P -m checkers.pages docs/anomalies

# What a run costs, and what a verdict costs; with SIZE (1m, 10m, 50m, 100m) a verdict on as many records alone.
bench: setup
ifdef SIZE
	@$(BIN)/python -m bench.scale $(SIZE)
else
	@$(BIN)/python -m bench.run
	@$(BIN)/python -m bench.scale 1m 10m
endif

# The store is yours: it stays.
clean:
	rm -rf .venv build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
