# Two commands on a fresh machine: `make run` and `make test`. They need Python 3.11+, pip, venv and make.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# Without it pip takes the newest torch, which the suite was not run with.
INSTALL := -m pip install --quiet --constraint constraints/tested.txt
MINIMUM ?= .venv-minimum

.PHONY: run test lint types suite test-all quick test-minimum docs dist clean

run: $(VENV)/.installed
	$(BIN)/smallgroup run

test: lint types suite

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache --no-logo

types: $(VENV)/.installed-dev
	$(BIN)/mypy

suite: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -n auto --dist worksteal -m "not slow"

# Gradients, steps, configs, statistics and the command's refusals: under a minute on two idle cores.
quick: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/python -m pytest -n auto --dist worksteal -m "not slow" tests/cli/test_before_torch.py tests/group/test_gradients.py \
		tests/group/test_step.py tests/keys tests/recipes/test_recipes.py tests/runner tests/statistics tests/test_config.py

# The whole suite, with what takes minutes.
test-all: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -n auto --dist worksteal

# The quick part of the suite with the lowest versions that pyproject.toml declares, in an environment of its own. Old
# packages may use what new ones of others deprecate.
QUICK := tests/data/test_folder.py tests/data/test_images.py tests/runtime tests/spaces tests/statistics \
	tests/test_config.py tests/recipes/test_recipes.py tests/group/test_gradients.py tests/group/test_step.py tests/cli/test_command.py tests/repository/test_lowest_versions.py

test-minimum: $(MINIMUM)/.installed
	$(MINIMUM)/bin/python -m pytest -n auto -W ignore::DeprecationWarning $(QUICK)

$(MINIMUM)/.installed: pyproject.toml constraints/minimum.txt
	$(PYTHON) -m venv $(MINIMUM)
	$(MINIMUM)/bin/python -m pip install --quiet --constraint constraints/minimum.txt --editable '.[onnx,tensorboard]' \
		hypothesis pytest pytest-xdist
	@touch $@

# The site, offline and with every warning an error.
docs: $(VENV)/.installed-dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# An sdist, and a wheel that is built from it, both checked and tried in an environment of their own.
dist: $(VENV)/.installed-dev
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	$(BIN)/python -m twine check --strict dist/*
	$(BIN)/python -m tests.tools.dist dist

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed, but $(PYTHON) is " + sys.version.split()[0])'
	$(PYTHON) -m venv $(VENV)

# The stamps make a second call free; a changed pyproject.toml installs again.
$(VENV)/.installed: pyproject.toml constraints/tested.txt | $(BIN)/python
	$(BIN)/python $(INSTALL) --editable .
	@touch $@

$(VENV)/.installed-dev: pyproject.toml constraints/tested.txt | $(BIN)/python
	$(BIN)/python $(INSTALL) --editable '.[dev]'
	@touch $@ $(VENV)/.installed

clean:
	rm -rf $(VENV) $(MINIMUM) build dist site .mypy_cache .pytest_cache .ruff_cache
