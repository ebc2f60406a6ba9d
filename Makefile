# Two commands do everything: `make demo` and `make test`. Each makes its own .venv first.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
DOCS := .venv/.docs

.PHONY: demo test lint types tests oldest bench fuzz docs clean help

demo: $(STAMP)  ## scaled data, a plan that is followed, its certificate, and a page, on real data that ships with scikit-learn
	$(BIN)/python examples/quickstart.py
	$(BIN)/reshuffle report breast_cancer --alpha 0.01 -o report.html

test: lint types tests  ## lint, types, all tests

lint: $(STAMP)  ## ruff, which also checks the format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)  ## mypy
	$(BIN)/mypy

tests: $(STAMP)  ## pytest
	$(BIN)/pytest -n 2

oldest:  ## pytest with the oldest versions that pyproject.toml allows, in .venv-oldest
	$(PYTHON) .ci/oldest

bench: $(STAMP)  ## ratios against peers; each prints one JSON object
	$(BIN)/python benchmarks/constants.py
	$(BIN)/python benchmarks/epochs.py
	$(BIN)/python benchmarks/time_to_gap.py
	$(BIN)/python benchmarks/orders.py
	$(BIN)/python benchmarks/plan.py
	$(BIN)/python benchmarks/scale.py

fuzz: $(STAMP)  ## damaged files, wrong arguments and killed runs, SECONDS=3600 of each kind; prints two JSON objects
	$(BIN)/python benchmarks/fuzz.py --seconds $(or $(SECONDS),3600)
	$(BIN)/python benchmarks/kills.py

docs: $(DOCS)  ## the site, in docs/_build/html
	$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html

$(DOCS): $(STAMP)
	$(BIN)/python -m pip install --quiet --prefer-binary -e ".[docs]"
	touch $(DOCS)

$(STAMP): pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --prefer-binary -e ".[dev]"
	touch $(STAMP)

clean:  ## remove all that the other targets made
	rm -rf .venv .venv-oldest .pytest_cache .mypy_cache .ruff_cache .hypothesis docs/_build docs/gallery test-artifacts report.html

help:  ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "%-8s%s\n", $$1, $$2 }' $(MAKEFILE_LIST)
