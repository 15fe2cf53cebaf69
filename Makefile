# Two commands for people: `make demo` and `make test`. Each sets up everything that it needs.
# uv comes from PyPI into .venv-uv; everything else comes from uv.lock into .venv, and into .venv-schema what cannot
# live beside kfp.
PYTHON ?= python3
UV_VERSION := 0.13.9
UV := .venv-uv/bin/uv
RUN := $(UV) run --frozen --no-sync
SCHEMA := UV_PROJECT_ENVIRONMENT=.venv-schema

.PHONY: demo test lint setup clean
.DELETE_ON_ERROR:

demo: setup
	$(RUN) python tools/demo.py

test: setup lint
	$(RUN) pytest
	$(SCHEMA) $(RUN) pytest tests/check/test_field_tables_match_their_sources.py
	$(RUN) python tools/test_pythons.py $(UV) tests/policy tests/authoring tests/samples

lint: setup
	$(RUN) ruff check .
	$(RUN) ruff format --check .
	$(RUN) mypy
	$(RUN) lint-imports

setup: .venv/.synced .venv-schema/.synced

PROJECTS := uv.lock pyproject.toml plugin/pyproject.toml nodeagent/pyproject.toml

.venv/.synced: $(PROJECTS) $(UV)
	$(UV) sync --frozen --python $(PYTHON)
	touch $@

.venv-schema/.synced: $(PROJECTS) $(UV)
	$(SCHEMA) $(UV) sync --frozen --python $(PYTHON) --no-default-groups --group schema
	touch $@

$(UV):
	$(PYTHON) tools/get_uv.py .venv-uv $(UV_VERSION)

clean:
	rm -rf .venv .venv-* build dist
