# Every target sets up what it needs by itself: Python 3.11 or newer (with its venv module) and make are enough.
# All packages come from requirements.lock, pinned by version and hash; pip's own configuration says from where.

SHELL := /bin/sh
VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python3.14; do \
	$$p -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && echo $$p && break; done)
READY := $(VENV)/.ready
WORKERS ?= auto
PIP := $(BIN)/python -m pip --disable-pip-version-check -qq
LOCK := $(BIN)/uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-header --quiet

.DEFAULT_GOAL := help
.PHONY: help setup bench-decisions bench-calibration bench-tick bench-watch bench-queries bench-prometheus demo test lint types format crds lock clean

help: ## Say what there is
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-18s %s\n", $$1, $$2}' Makefile

setup: $(READY) ## Build .venv from the lock file (done by every other target; skipped while the lock is unchanged)

$(READY): requirements.lock pyproject.toml
	@if [ -z "$(PYTHON)" ]; then \
		echo "No Python 3.11 or newer with the venv module found: install it, or run make PYTHON=/path/to/python3" >&2; \
		exit 2; fi
	@[ -x $(BIN)/python ] || { echo "Setting up $(VENV) ..." >&2; $(PYTHON) -m venv $(VENV); }
	@$(PIP) install --require-hashes --only-binary :all: -r requirements.lock
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

demo: setup ## Watch it work against an emulated cluster; one to two minutes
	@$(BIN)/autoscaler demo

test: lint ## Everything that CI checks
	@$(BIN)/pytest -n $(WORKERS) --dist loadfile

lint: setup types ## Style, layers, types, Dockerfile
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check --quiet . || { $(BIN)/ruff format --check .; exit 1; }
	@$(BIN)/lint-imports --no-logo 2>&1 || exit 1
	@$(BIN)/hadolint Dockerfile

types: setup
	@$(BIN)/mypy

format: setup ## Put the source into shape
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

crds: setup ## Write manifests/crds and docs/policy.md from the policy model
	@$(BIN)/autoscaler crds --output manifests/crds
	@$(BIN)/autoscaler crds --reference > docs/policy.md

bench-decisions: setup ## Measure how good the decisions are; AUTOSCALER_TRACES=DIR holds the public traces
	@$(BIN)/python benches/decisions.py $(ARGS)

bench-calibration: setup ## Measure whether the simulator is to be believed; AUTOSCALER_TRACES, AUTOSCALER_TRUTH
	@$(BIN)/python benches/calibration.py $(ARGS)

bench-tick: setup ## Measure what a tick costs at 1,000 workloads with 10,000 pods
	@$(BIN)/python benches/tick.py $(ARGS)

bench-watch: setup ## Measure what seeing a large cluster costs
	@$(BIN)/python benches/watch.py

bench-queries: setup ## Count the queries a tick on a real Prometheus, at 10, 100 and 1,000 workloads
	@$(BIN)/python benches/queries.py

bench-prometheus: setup ## Measure what a tick costs at 10,000 pods through a real Prometheus
	@$(BIN)/python benches/prometheus_tick.py $(ARGS)

lock: setup ## Resolve the dependencies anew into the lock files (asks the package index)
	@command -v $(BIN)/uv >/dev/null || $(PIP) install uv
	@$(LOCK) --all-extras --group dev --output-file requirements.lock
	@$(LOCK) --output-file requirements-runtime.lock
	@$(BIN)/uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --quiet \
		--group build --output-file requirements-build.lock

clean: ## Remove what the other targets made
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis build dist
