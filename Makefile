# `make demo` and `make test` need Python 3.11 to 3.13 (docs/dependencies.md says why), git and make; they set up the rest.
# All paths are relative, so that the folder may have spaces in its name.

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready
READY_DEV := .venv/ready-dev
CODE := fencepost harness workloads nemeses checkers reports benchmarks tests tools setup.py
# A machine can forbid Python to keep compiled modules. Then each process that a test starts compiles all that it imports.
export PYTHONDONTWRITEBYTECODE :=
# pytest, with the name and the budget of a group of tests in seconds of processor time.
PYTEST := $(BIN)/python -P tools/processor_budget.py
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation

.PHONY: setup setup-dev demo quick test golden golden-update check chaos mutants coverage lint actionlint docs docs-site bench clean

setup: $(READY)
setup-dev: $(READY_DEV)

# Check the Python version first: with another version, a package without a wheel would fail with many lines. A .venv that
# has no pip, or another Python, is made again.
$(READY): requirements-build.lock requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' || { \
	  echo "requirements.lock is for Python 3.11, 3.12 or 3.13, and $(PYTHON) is another; name one: make PYTHON=python3.12" >&2; exit 2; }
	@$(BIN)/python -m pip --version >/dev/null 2>&1 && \
	  $(BIN)/python -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' || \
	  $(PYTHON) -m venv --clear .venv || { \
	  echo "$(PYTHON) cannot make a virtual environment; on Debian: apt-get install python3-venv" >&2; exit 2; }
	@echo "installing what requirements.lock names into .venv (a minute or two, once)"
	@$(PIP) --require-hashes -r requirements-build.lock
	@$(PIP) --require-hashes -r requirements.lock
	@$(PIP) --no-deps --editable .
	@touch $(READY)

# Packages that only developers need: for tests and linters.
$(READY_DEV): $(READY) requirements-dev.lock
	@echo "installing what requirements-dev.lock names into .venv"
	@$(PIP) --require-hashes -r requirements-dev.lock
	@touch $(READY_DEV)

demo: setup
	@status=0; $(BIN)/fencepost run --time-limit 60 || status=$$?; \
	echo; echo "A run that catches a defect:"; \
	echo "  $(BIN)/fencepost run --defect offsets-outside-transaction"; \
	exit $$status

# Lint, and the unit tests that start no process and no Spark.
quick: lint
	@$(PYTEST) quick 200 -q -n 3 --dist loadfile -m "light and not processes" tests/unit

# The unit tests that need no Spark; then, in two processes, tests that start clusters, and tests that share a Spark or a browser.
test: setup-dev
	@$(PYTEST) light 450 -q -n 3 --dist loadfile -m light tests/unit
	@$(PYTEST) others 1600 -q -n 2 --dist loadgroup -m "not light"

# The texts that are made of the stored runs of tests/golden, against those that are expected. With golden-update, what is
# made now is expected from now on: read the difference with git, and say in the commit why it is right.
golden: setup-dev
	@$(BIN)/python -P -m pytest -q tests/golden

golden-update: setup-dev
	@$(BIN)/python -P -m pytest -q tests/golden --golden-update

# One anomaly in half a minute: its cases in Spark, and the light tests that name it. make check FILE=duplicate
check: setup-dev
	@$(BIN)/python -P -m pytest -q --anomaly "$(FILE)" tests/unit/checkers tests/unit/test_plain_jepsen.py \
	  tests/unit/test_plain_verdicts.py tests/exhaustive/test_small_external_histories.py

# Takes hours: many seeds, every defect, runs that are killed.
chaos: setup-dev
	@$(BIN)/python -P -m pytest --timeout 1200 tests/chaos

# Checker files with one thing changed, each of which the tests must catch: make mutants FILE=duplicate, or
# SINCE=main~3 for the files that have changed since then. Minutes for a file; it goes on where it was interrupted.
mutants: setup-dev
	@PYTHONPATH=.:tests/exhaustive:tests/unit/checkers $(BIN)/python -m tests.mutants $(FILE) $(if $(SINCE),--since $(SINCE))

# The light tests, and which lines of the product they run.
coverage: setup-dev
	@$(BIN)/python -P -m pytest -q -n 2 --dist loadfile -m light --cov --cov-report=term tests/unit

lint: setup-dev
	@$(BIN)/ruff check $(CODE)
	@$(BIN)/ruff format --check $(CODE)
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache >/dev/null || $(BIN)/lint-imports --no-cache

# The workflows of .github; the linter is built once, from its Go module, into the cache.
actionlint: setup
	@$(BIN)/python -P tools/actionlint.py

# The pages that are generated from the code.
docs: setup
	@$(BIN)/python -P -m checkers.catalogue docs/anomalies
	@$(BIN)/python -P -m harness.record.schema docs/tables.md
	@$(BIN)/python -P -m harness.clients.error_table docs/clients.md
	@$(BIN)/python -P -m harness.results.reasons docs/reasons.md
	@$(BIN)/python -P -m nemeses.pages docs/faults.md
	@$(BIN)/python -P -m harness.results.schema docs fencepost/verdict_types.py

# The docs as a site, in build/site. A dead link fails.
docs-site: setup-dev
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# Measure a run and its verdicts, and write docs/scale.md; with SIZE (1m, 10m, 50m, 100m) only a history of this size.
bench: setup-dev
ifdef SIZE
	@$(BIN)/python -m benchmarks.scale $(SIZE)
else
	@$(BIN)/python -m benchmarks.run
	@$(BIN)/python -m benchmarks.page
	@$(BIN)/python -m benchmarks.protocol_proxy
endif

# The folder `store` is not removed.
clean:
	rm -rf .venv build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage .mutants
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
