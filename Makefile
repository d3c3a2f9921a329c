# Every target works from a bare clone with nothing but Python 3.11: it makes its own environment first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DEMO := .demo
BARE := $(VENV)/bare/.ready
EXTRAS := dev,api,local,mcp,postgres,provenance,robots,serve,studio,train,ray

# Hundreds of processes that tests start import the same files: compiled once, they start in half of the time.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup demo cluster cluster-down studio site site-vectors test test-all test-servers test-trainers test-robots bench lint format docs release clean

setup: $(READY)

CHECK_PYTHON = @$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	{ echo "Python 3.11 or newer is needed: make PYTHON=/path/to/python3.11"; exit 1; }

$(READY): pyproject.toml mini/pyproject.toml research/miniature/pyproject.toml constraints.txt
	$(CHECK_PYTHON)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[$(EXTRAS)]' \
		-e ./mini -e ./research/miniature
	@touch $@

# What `pip install` of the wheel brings without any extra, less the wheel itself: tests add the one they build.
$(BARE): pyproject.toml constraints.txt | $(READY)
	$(PYTHON) -m venv $(VENV)/bare
	$(VENV)/bare/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt .
	$(VENV)/bare/bin/python -m pip uninstall --quiet --yes interleavethinker
	@touch $@

# The command, the studio and the miniature, without torch. Python compiles what it imports: not all is needed.
$(DEMO)/.ready: pyproject.toml mini/pyproject.toml constraints.txt
	$(CHECK_PYTHON)
	$(PYTHON) -m venv $(DEMO)
	$(DEMO)/bin/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt \
		-e '.[studio]' -e ./mini
	@touch $@

demo: $(DEMO)/.ready
	@rm -rf runs/demo
	@$(DEMO)/bin/interleave generate --requests examples/gallery.jsonl --gallery --out runs/demo

# A document service, two workers, Postgres, three generators and nginx, as processes on this machine.
cluster: $(READY)
	@$(BIN)/python deploy/local_cluster.py up

cluster-down: $(READY)
	@$(BIN)/python deploy/local_cluster.py down

# Needs Node.js 20.19 or newer. The built file is committed: nobody else needs to do this.
studio: $(READY)
	cd studio && npm ci && PYTHON=../$(BIN)/python npm run types && npm run check && npm test && npm run build

# The whole loop in a browser tab, as a static folder. Needs Node.js 20.19 or newer; the models are the miniature's.
site: $(READY)
	cd browser && npm ci && npm run check && npm run build
	$(BIN)/python browser/assemble.py

# What Python computes, for `npm test` in browser/: made again whenever the miniature's weights change.
site-vectors: $(READY)
	$(BIN)/python browser/vectors.py

# On all cores, at most eight: each process imports torch.
PYTEST := $(BIN)/python -m pytest -n auto --maxprocesses 8 --dist worksteal

test: $(READY) $(BARE)
	$(PYTEST) -m "not slow"

# STRICT=1 fails where a test would skip because a program or package is missing, and lists them.
test-all: $(READY) $(BARE)
ifneq ($(filter-out 0,$(STRICT)),)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[strict]'
endif
	STRICT=$(STRICT) $(PYTEST)

test-servers: $(READY)
	$(BIN)/python -m pytest tests/servers

# Makes an environment for each trainer under .trainers/ (some 10 GB), then runs its own code on our exports.
# EASYR1=/path/to/checkout tests EasyR1 too, which is not on PyPI.
test-trainers: $(READY)
	$(BIN)/python tests/train/trainers/environments.py
	$(BIN)/python -m pytest tests/train/trainers

# Makes an environment with Python 3.12, lerobot 0.6.1 and rerun-sdk under .robots/ (some 6 GB), then lets them
# read what we write. Where there is no Python 3.12 these tests are skipped and say so; PYTHON312 names one.
test-robots: $(READY)
	$(BIN)/python tests/robots/environment.py
	$(BIN)/python -m pytest tests/robots

bench: $(READY)
	$(BIN)/python perf/startup.py
	$(BIN)/python perf/runs.py
	$(BIN)/python perf/world.py
	$(BIN)/python perf/reader.py
	$(BIN)/python perf/generator.py
	$(BIN)/python perf/server.py
	$(BIN)/python perf/documents.py
	$(BIN)/python perf/data.py

lint: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo site/index.html

# Wheels and source archives in dist/, with the same bytes from a fresh clone.
release: $(READY)
	$(BIN)/python deploy/release.py

clean:
	rm -rf $(VENV) $(DEMO) .trainers .robots runs site browser/dist browser/vectors dist .pytest_cache .mypy_cache .ruff_cache
