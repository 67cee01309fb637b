# The two commands of the README: `make demo` and `make test`. The rest is what CI and developers run.
PYTHON ?= $(firstword $(foreach name,python3 python3.14 python3.13 python3.12 python3.11,\
	$(if $(shell $(name) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>&1 || echo no),,$(name))))
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --no-input --disable-pip-version-check -c constraints.txt

.PHONY: install dev demo test lint types format clean

install: $(VENV)/.installed

dev: $(VENV)/.dev

$(VENV)/.made:
	@test -n "$(PYTHON)" || { echo "Corrigenda needs Python 3.11 or newer: install it, or name it with PYTHON=..." >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Corrigenda needs Python 3.11 or newer; $(PYTHON) isn't. Name another with PYTHON=..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.installed: pyproject.toml constraints.txt | $(VENV)/.made
	$(PIP) -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.installed
	$(PIP) -e '.[dev]'
	@touch $@

demo: install
	$(BIN)/corrigenda up --demo

test: dev
	$(BIN)/python -m pytest -n 2

lint: dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: dev
	$(BIN)/mypy

format: dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) build *.egg-info
