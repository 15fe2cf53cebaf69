# Two commands for people: `make demo` and `make test`. Each sets up everything that it needs.
# uv comes from PyPI into .venv-uv; everything else comes from uv.lock into .venv.
PYTHON ?= python3
UV_VERSION := 0.13.9
UV := .venv-uv/bin/uv
RUN := $(UV) run --frozen --no-sync

.PHONY: demo test lint setup bench clean
.DELETE_ON_ERROR:

demo: setup
	$(RUN) python tools/demo.py

test: setup lint
	$(RUN) pytest

lint: setup
	$(RUN) ruff check .
	$(RUN) ruff format --check .
	$(RUN) mypy
	$(RUN) lint-imports

setup: .venv/.synced

.venv/.synced: uv.lock pyproject.toml plugin/pyproject.toml nodeagent/pyproject.toml $(UV)
	$(UV) sync --frozen --python $(PYTHON)
	touch $@

$(UV):
	$(PYTHON) tools/get_uv.py .venv-uv $(UV_VERSION)

clean:
	rm -rf .venv .venv-uv build dist
