# The two commands of the README: `make demo` and `make test`. The rest is what CI and developers run.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: install dev demo test lint types format clean

install: .venv/.installed

dev: .venv/.dev

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/.installed: pyproject.toml constraints.txt | .venv/bin/python
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	touch $@

.venv/.dev: .venv/.installed
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

demo: install
	$(BIN)/corrigenda up --demo

test: dev
	$(BIN)/pytest -n 2

lint: dev
	$(BIN)/ruff check .
	$(BIN)/lint-imports

types: dev
	$(BIN)/mypy

clean:
	rm -rf .venv build *.egg-info
