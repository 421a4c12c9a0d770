# Each verb sets up what it needs: Python 3.11 or 3.12 and GNU make are enough.
PYTHON ?= python3
VENV ?= .venv
WORKERS ?= 2
PYTEST_ARGS ?=

BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
CELERY := $(VENV)/.celery-installed
BROWSER := $(VENV)/.browser-installed
DOCS := $(VENV)/.docs-installed
FAB_VENV := .venv-fab
FAB := $(FAB_VENV)/.installed
SOURCES := $(patsubst %/__init__.py,%,$(wildcard */__init__.py)) $(wildcard dags/*.py)
PYTEST := $(BIN)/python -m pytest -n $(WORKERS) $(PYTEST_ARGS)
# Tests on a running Airflow share it, one after the other.
ALONE := $(BIN)/python -m pytest $(PYTEST_ARGS)
MINORS ?= 3.2 3.3
# Another Airflow than the pinned one, such as ~=3.2.0; all else is as pinned, but for what an older one bounds.
AIRFLOW ?=
FREED := ^(apache-airflow(-core|-task-sdk)?|aiosqlite)==
PINS := $(if $(AIRFLOW),$(VENV)/constraints.txt,constraints.txt)
PIP_INSTALL = $(BIN)/python -m pip install --quiet --quiet --disable-pip-version-check -c $(PINS) $(if $(AIRFLOW),'apache-airflow$(AIRFLOW)')
SUPPORTED := import sys; sys.exit(sys.version_info[:2] not in ((3, 11), (3, 12)))

.DEFAULT_GOAL := help
.PHONY: help demo up down test test-system test-celery test-browser test-airflow test-fab test-waiting test-watcher test-races test-quarter test-rate test-lifecycle test-lifecycle-full test-core test-parse test-matrix lint docs format bench bench-quick bench-wake-up mutants clean

help: ## print these verbs
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-20s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(STAMP) ## a guarded rank check on a real Airflow, in three scenes
	@$(BIN)/python -m demo run

up: $(STAMP) ## open the demo's Airflow and print its address and login
	@$(BIN)/python -m demo up

down: $(STAMP) ## end what `make up` has opened
	@$(BIN)/python -m demo down

test: $(STAMP) ## the tests that need pip only, on SQLite and PostgreSQL
	@$(PYTEST) -m "not system and not quarter and not rate and not celery and not browser and not fab and not lifecycle" --ignore=tests/waiting

test-system: $(STAMP) ## the tests that need Debian packages (installs them, as root)
	@command -v pgbouncer >/dev/null || \
	  { apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install --no-install-recommends pgbouncer >/dev/null; } || \
	  { echo "make test-system needs pgbouncer: install it, or run this as root on Debian." >&2; exit 1; }
	@$(PYTEST) -m system

test-celery: $(CELERY) ## two schedulers and two Celery workers (installs Debian's redis-server, as root)
	@command -v redis-server >/dev/null || \
	  { apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install --no-install-recommends redis-server >/dev/null; } || \
	  { echo "make test-celery needs redis-server: install it, or run this as root on Debian." >&2; exit 1; }
	@$(ALONE) tests/celery

# Inter is the font that Airflow's UI asks for.
test-browser: $(BROWSER) ## the page in a browser on a running Airflow (installs Debian's chromium, as root)
	@command -v chromium >/dev/null || \
	  { apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install --no-install-recommends chromium fonts-inter >/dev/null; } || \
	  { echo "make test-browser needs chromium: install it, or run this as root on Debian." >&2; exit 1; }
	@$(ALONE) -m browser tests/browser

WAITING := tests/waiting tests/airflow/test_waiting.py
test-airflow: $(STAMP) ## the tests that need a running Airflow (they start one), but for the next two
	@$(ALONE) -m lifecycle --ignore=tests/lifecycle $(WAITING:%=--ignore=%)

test-fab: $(FAB) ## who may do what under Airflow's FAB auth manager
	@$(FAB_VENV)/bin/python -m pytest $(PYTEST_ARGS) tests/fab

test-waiting: $(STAMP) ## those about waiting: hundreds in line, every way to be woken
	@$(ALONE) $(WAITING)

test-watcher: $(STAMP) ## those of them that need no Airflow
	@$(ALONE) -m "not lifecycle" tests/waiting

test-races: $(STAMP) ## the races of `make test` with four times as many rounds: 1,000 on PostgreSQL, 200 on SQLite
	@RANKGUARD_RACE_TIMES=4 $(PYTEST) tests/races

test-quarter: $(STAMP) ## a simulated quarter of a thousand schedules, with eight processes that claim and die
	@$(PYTEST) -m quarter

test-rate: $(STAMP) ## ten thousand paid calls of eight processes, counted in every minute (ten minutes of one core)
	@$(ALONE) -rP -m rate tests/rate

test-lifecycle: $(STAMP) ## every way in which Airflow ends a run, with a table of what it took
	@$(ALONE) tests/lifecycle

test-lifecycle-full: test-lifecycle ## another name of test-lifecycle

test-core: $(STAMP) ## the core of those
	@$(ALONE) tests/lifecycle -m core

test-parse: $(STAMP) ## all that is checked when DAGs are parsed
	@$(ALONE) tests/parse

test-matrix: ## both on the newest release of each supported Airflow
	@for minor in $(MINORS); do \
	  echo "== Airflow $$minor" && \
	  $(MAKE) --no-print-directory VENV=.venv-$$minor AIRFLOW="~=$$minor.0" test-parse test-core || exit 1; \
	done

lint: $(STAMP) ## format, style, types and the direction of imports
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy $(SOURCES)
	@$(BIN)/lint-imports

# Strict: what MkDocs would warn of fails. It counts no warning that it is told not to print.
docs: $(DOCS) ## the documentation as a site in the folder site; every link and anchor is checked
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

format: $(STAMP) ## put every file into the one format
	@$(BIN)/ruff check --fix-only --quiet .
	@$(BIN)/ruff format .

bench: $(STAMP) ## measure the guard beside its peers, and write docs/benchmarks.md (under 20 minutes of two quiet cores)
	@$(BIN)/python -m benchmarks

bench-quick: $(STAMP) ## a first look at the same without Airflow; writes nothing there (under 3 minutes)
	@$(BIN)/python -m benchmarks --quick

bench-wake-up: $(STAMP) ## how long waiters wait once their key is free, told and polling (about a minute)
	@$(BIN)/python -m benchmarks --only wake_up

mutants: $(STAMP) ## take out one guard line at a time: the tests must notice
	@$(BIN)/python -m tests.mutants

clean: ## remove the virtual environment and what the tools left
	@test ! -e .demo/up.lock || $(BIN)/python -m demo down
	@rm -rf $(VENV) $(FAB_VENV) .bench build dist *.egg-info .demo .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache site
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# pip is the last thing that venv writes, so a broken-off start is taken up again.
$(BIN)/pip $(FAB_VENV)/bin/pip: %/bin/pip:
	@$(PYTHON) -c '$(SUPPORTED)' || \
	  { echo "Python 3.11 or 3.12 is needed, '$(PYTHON)' is not one: run make PYTHON=/path/to/python3.12" >&2; exit 1; }
	@$(PYTHON) -m venv $*

$(STAMP): pyproject.toml constraints.txt | $(BIN)/pip
	@$(BIN)/python -c '$(SUPPORTED)' || \
	  { echo "$(VENV) was made by another Python than 3.11 or 3.12: run make clean" >&2; exit 1; }
	@echo "Installing into $(VENV) (once, one to two minutes) ..."
	@$(if $(AIRFLOW),grep -vE '$(FREED)' constraints.txt >$(PINS))
	@$(PIP_INSTALL) -e '.[dev]'
	@touch $@

$(CELERY): $(STAMP)
	@$(PIP_INSTALL) -e '.[celery]'
	@touch $@

$(BROWSER): $(STAMP)
	@$(PIP_INSTALL) -e '.[browser]'
	@touch $@

$(DOCS): $(STAMP)
	@$(PIP_INSTALL) -e '.[docs]'
	@touch $@

# Flask-AppBuilder takes no dateutil 4: FAB has a virtual environment of its own, where all else is as pinned.
$(FAB): BIN := $(FAB_VENV)/bin
$(FAB): PINS := $(FAB_VENV)/constraints.txt
$(FAB): pyproject.toml constraints.txt | $(FAB_VENV)/bin/pip
	@echo "Installing into $(FAB_VENV) (once, one to two minutes) ..."
	@sed 's/^python-dateutil==.*/python-dateutil==2.9.0.post0/' constraints.txt >$(PINS)
	@$(PIP_INSTALL) -e '.[dev,fab]'
	@touch $@
