# Five short commands, shared by people and CI. A torch that is already installed for PYTHON is used as it is.
PYTHON ?= python3
VENV ?= .venv
TORCH ?= torch==2.13.0
# On a machine without a GPU this index has a much smaller build:
#   make exam TORCH_INDEX=https://download.pytorch.org/whl/cpu
TORCH_INDEX ?=
REPORT ?= reports/$(shell date -u +%Y%m%d-%H%M%S)
ARGS ?=

RUN := $(VENV)/bin/python -m
HAS_TORCH = $(shell $(PYTHON) -c 'import importlib.metadata as m; v = m.version("torch").split("."); print("yes" if (int(v[0]), int(v[1])) >= (2, 11) else "")' 2>/dev/null)

.PHONY: exam test check install gpu-check format

exam: install  ## run the scenarios; the path of the report comes last
	$(RUN) pytest scenarios/ --exam-out $(REPORT) $(ARGS)

test: install  ## run the project's own tests
	$(RUN) pytest tests/ -n 2 --dist loadfile $(ARGS)

check: install  ## format, lint, types, import rules
	$(RUN) ruff format --check .
	$(RUN) ruff check .
	$(RUN) mypy
	$(VENV)/bin/lint-imports

format: install  ## rewrite what can be rewritten
	$(RUN) ruff format .
	$(RUN) ruff check --fix .

install: $(VENV)/.installed  ## the environment alone

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(if $(HAS_TORCH),--system-site-packages) $(VENV)
	$(if $(HAS_TORCH),,$(RUN) pip install --quiet $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) "$(TORCH)")
	$(RUN) pip install --quiet --editable ".[dev]"
	touch $@

gpu-check:  ## unattended on a GPU machine with torch installed; no network, below 8 minutes
	$(PYTHON) -m harness.cli.gpu_check --out $(REPORT) $(ARGS)
