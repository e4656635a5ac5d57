# Every target works on a fresh clone with nothing but Python >= 3.11, make and PyPI. Stamp files in the environments
# remember what is installed: a second call installs nothing.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help tour test test-rest test-portable test-pythons test-oldest test-free-threaded check format interop upstream sanitize soak bench bench-compare docs \
  packages wheels smoke lock licences sbom audit system-packages clean

PYTHON ?= $(shell for p in python3 python3.11 python3.12 python3.13 python3.14 python; do \
  $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
BIN := .venv/$(if $(filter Windows_NT,$(OS)),Scripts,bin)
# One process more than cores, for many tests wait for others: servers, writers that are killed, the disk.
SPREAD := -n $(shell $(PYTHON) -c 'import os; print(min(4, 1 + (os.cpu_count() or 1)))') --dist loadfile --no-loadscope-reorder --max-worker-restart 2
# The tests' files, a quarter of a million and 7 GB in all, lie in memory where there are 12 GiB of it: a disk takes ten
# times as long to make, flush and remove them. Those of tests that fail are kept. Others may walk through their folder:
# some tests run as another user.
IN_MEMORY := $(shell df -m --output=avail /dev/shm 2>/dev/null | awk 'NR == 2 && $$1 > 12000 {print "--tmpdir=/dev/shm"}')
TESTS = files=$$(mktemp -d $(IN_MEMORY)) && chmod 755 $$files && \
  TMPDIR=$$files $(1) -m pytest --ignore tests/house $(SPREAD) --basetemp $$files/pytest $(2) && rm -rf $$files
# What reads and writes chunks in local files, which the engine in C does where it was built, once more without it.
WITHOUT_ENGINE = $(addprefix tests/,array chunks formats/nczarr formats/zarr2 formats/zarr3 formats/hdmf integrity)
# Versions of .ci/lock.txt, so that a change is judged by itself; `make upstream` takes the newest.
CONSTRAINT := $(if $(UPSTREAM),,--constraint .ci/lock.txt)
# What reads and writes files; what Linux alone has is marked so in them.
PORTABLE = $(addprefix tests/stores/test_,conformance.py directory.py file_lock.py zip.py update.py location.py hostile_names.py unexpected_files.py) \
  $(filter-out tests/formats/deker/%,$(wildcard tests/formats/*/test_*conformance.py))
# What is imported is compiled then, and kept, whatever this machine says: thousands of processes import it in a run of
# the suite. To compile all else takes half of an installation's time.
export PIP_NO_COMPILE := 1
export EXAMPLES
unexport PYTHONDONTWRITEBYTECODE
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
# uv installs in a tenth of pip's time; what it cannot (an index that only pip's configuration names) pip does.
INSTALL = $(BIN)/python -m uv pip install --quiet --python $(BIN)/python $(CONSTRAINT) $(1) || $(PIP) install $(CONSTRAINT) $(1)

help: ## what there is
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

.venv/.made:
	@test -n "$(PYTHON)" || { echo "no Python >= 3.11 found; set PYTHON=/path/to/python"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(PIP) install uv || echo "no uv here: pip installs, which takes longer"
	@touch $@

.venv/.with-%: .venv/.made .ci/lock.txt pyproject.toml hatch_build.py src/hyperslab/chunks/_engine.c
	@echo "installing hyperslab[$*] into .venv"
	@$(call INSTALL,--editable '.[$*]')
	@$(BIN)/python -m hyperslab doctor | grep '^engine in C'
	@touch $@

tour: .venv/.with-tour ## real data through every format, step by step
	@$(BIN)/hyperslab tour

test: .venv/.with-test,peers ## every format, command and promise once, in six minutes
	@$(call TESTS,$(BIN)/python)

test-rest: .venv/.with-test,peers ## the cases of long lists that `make test` leaves to CI; chunks without the engine in C
	@export HYPERSLAB_TESTS=rest; $(call TESTS,$(BIN)/python)
	@export HYPERSLAB_NATIVE=0; $(call TESTS,$(BIN)/python,$(WITHOUT_ENGINE))

check: .venv/.with-check,peers ## format, lint, types, floors, house measures
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy --strict src
	@$(BIN)/lint-imports
	@$(BIN)/python -m pytest tests/house
	@HYPERSLAB_TESTS=rest $(BIN)/python -m pytest tests/house
	@$(BIN)/python tests/house/figures.py

format: .venv/.with-check ## ruff's own formatting and safe fixes
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

.venvs/oldest/.made: pyproject.toml .ci/floors.py hatch_build.py src/hyperslab/chunks/_engine.c
	@test -x $(@D)/bin/python || $(PYTHON) -m venv $(@D)
	@$(@D)/bin/python .ci/floors.py > $(@D)/floors.txt
	@$(@D)/bin/python -m pip --quiet --disable-pip-version-check install --constraint $(@D)/floors.txt --editable '.[test]'
	@touch $@

test-oldest: .venvs/oldest/.made ## the whole suite at the lowest version of every library
	@$(call TESTS,.venvs/oldest/bin/python)

test-portable: .venv/.with-test,peers ## stores and formats as Windows and macOS show themselves (tests/other_system.py)
	@failed=0; for system in windows macos; do PYTHONPATH=tests HYPERSLAB_TESTS_SYSTEM=$$system $(BIN)/python -m pytest \
	  -p other_system -p no:cacheprovider $(PORTABLE) || failed=1; done; exit $$failed

test-pythons: ## the smoke part of the suite by each Python from 3.11 on that is here (SUITE=all: the whole suite)
	@$(PYTHON) .ci/pythons.py $(SUITE)

test-free-threaded: ## chunks, codecs, Zarr and many threads by a Python without its lock (python3.14t, python3.13t, PYTHON_T=...)
	@$(PYTHON) .ci/free_threaded.py

interop: .venv/.with-test,peers ## cross-reads with the real peers, each in an environment of its own
	@$(BIN)/python .ci/peers.py

upstream: ## the suite and the peers with the newest version of every library, whatever .ci/lock.txt says
	@rm -rf .venv/.with-*
	@$(MAKE) --no-print-directory --keep-going UPSTREAM=1 test interop

sanitize: .venv/.with-test,peers ## the engine in C under the sanitizers of gcc, with 10,920 damaged chunks
	@$(BIN)/python .ci/sanitize.py

soak: .venv/.with-test,peers ## long campaigns: all cases of all lists, EXAMPLES=5000 new ones for each property
	@export HYPOTHESIS_PROFILE=soak; $(call TESTS,$(BIN)/python,--timeout 0 -m "not interop")
	@HYPOTHESIS_PROFILE=soak $(BIN)/python .ci/peers.py deker

bench: .venv/.with-bench ## every row of docs/benchmarks.md, measured anew, in about 20 minutes
	@$(BIN)/python .ci/peers.py --make deker hdmf-zarr-013
	@$(BIN)/python -m benchmarks

# The other tree has an engine of its own once a wheel of it was built.
bench-compare: .venv/.with-bench ## the same rows (ROWS: of these families alone) in this tree and in revision BASE, in turns: is any slower by more than BOUND (1.10)?
	@folder=$$(mktemp -d) && git worktree add --quiet --detach $$folder/base $(BASE) && \
	  { $(PIP) wheel --no-deps --wheel-dir $$folder $$folder/base && \
	    $(BIN)/python -m benchmarks.compare $$folder/base $(ROWS) --bound $(or $(BOUND),1.10); \
	    status=$$?; git worktree remove --force $$folder/base; rm -rf $$folder; exit $$status; }

docs: .venv/.with-docs ## the site, into site/
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

packages: .venv/.with-test,peers ## the archive and a wheel, built and tried in clean environments of every Python here
	@$(BIN)/python docs/making/man_page.py
	@$(PYTHON) .ci/packages.py

wheels: .venv/.made ## wheels for this system and every Python, by cibuildwheel (Linux: needs docker or podman)
	@$(PIP) install cibuildwheel && $(BIN)/python -m cibuildwheel

smoke: ## this tree installed in a clean environment, and the smoke suite: a minute on any system
	@$(PYTHON) .ci/packages.py --smoke

lock: .venv/.made ## .ci/lock.txt anew: the newest versions that pyproject.toml allows, for every Python and system
	@$(BIN)/python -m uv pip compile --quiet --universal --python-version 3.11 --upgrade --no-header --no-annotate \
	  --extra test --extra check --extra peers --extra docs --output-file .ci/lock.txt pyproject.toml

licences: .venv/.made ## the licence of everything that is bundled or installed with hyperslab[all], against those that are allowed
	@$(PYTHON) .ci/supply_chain.py licences

sbom: .venv/.made ## dist/sbom.json: what a release brings and stands on, as CycloneDX
	@$(PYTHON) .ci/supply_chain.py sbom

audit: .venv/.made ## known vulnerabilities of the versions in .ci/lock.txt (asks PyPI)
	@$(PYTHON) .ci/supply_chain.py audit

system-packages: ## programs that tests call, by apt where they are missing: Chromium, ncgen, gcc
	@.ci/system_packages

clean: ## what make has made
	rm -rf .venv .venvs site .tour
