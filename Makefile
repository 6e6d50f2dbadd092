# One command for each thing a person does here. Everything runs in .venv, which `make setup` fills
# from requirements/all.txt (versions and hashes); a second `make setup` does nothing.

# A distribution builds its Python with profile-guided optimization. One that pyenv has built without it
# takes a third longer.
DISTRIBUTED := /usr/bin/python3.11
HAS_ALL := import ensurepip, os, sysconfig; os.stat(sysconfig.get_path("include") + "/Python.h")
PYTHON ?= $(shell $(DISTRIBUTED) -c '$(HAS_ALL)' 2>/dev/null && echo $(DISTRIBUTED) \
	|| command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
ARCHIVE := $(VENV)/.spark-archive
COLLECTED := $(VENV)/.tests-collected
# A file of tests is one process's, so that what it starts once is started once.
# The order is tests/conftest.py's; by number of tests, the longest files would come last.
# Tests that compute need a core each. Tests of servers and of Spark wait for these most of the time.
# Each process imports all tests, seven seconds of a core.
WORKERS ?= 2
PROCESS_WORKERS ?= $(shell expr 5 \* $(WORKERS) / 2)
# The kills of the proof wait for servers while its models compute.
PROOF_WORKERS ?= $(shell expr 2 \* $(WORKERS))
# A process of tests that dies ends the run with the name of its test: xdist 3 waits for ever otherwise.
PYTEST := $(BIN)/pytest --max-worker-restart 0 --dist loadfile --no-loadscope-reorder --numprocesses

# The tests start processes by the thousand: each would compile every module that it imports.
unexport PYTHONDONTWRITEBYTECODE

SUBMAKE := $(MAKE) --no-print-directory

.DEFAULT_GOAL := help
.PHONY: help setup screenshots test proof smoke conformance transfers check gates format-check lint types contracts proto-fresh proto-lint docs-fresh docs \
	console console-fresh console-tests \
	quick-tests sim spark-kills lowest pythons sparks dist fmt demo proto bench docs-site lock clean

help: ## show this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY) ## create .venv with everything, from pinned and hashed requirements

$(READY): requirements/all.txt requirements/data.txt pyproject.toml tools/hatch_build.py \
		proto/strandline_proto/_records.c
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "error: Python 3.11 or newer is needed (make setup PYTHON=/path/to/python3.11)" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing the pinned requirements into $(VENV) (a few minutes the first time)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/all.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation \
		--require-hashes -r requirements/data.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

# What PYTEST_ARGS selects may leave one of the two commands nothing to run: pytest ends with 5 then.
NOTHING_SELECTED = $(if $(PYTEST_ARGS),{ status=$$?; test $$status -eq 5 || exit $$status; },exit $$?)

# What the other command runs is not even imported: each process of tests imports all that it is given.
ELSEWHERE := $(addprefix --ignore=,tests/proof tests/unit/proof tests/conformance)
PROVING = tests/proof tests/unit/proof $(shell grep -rl --include='test_*.py' 'pytest[.]mark[.]proof' tests)

test: setup ## run every gate and the tests of the product (TEST_EXAMPLES=1: more examples of each property)
	@$(SUBMAKE) --keep-going -j2 --output-sync=target gates $(ARCHIVE) $(COLLECTED)
	@$(PYTEST) $(PROCESS_WORKERS) -m "not proof and not conformance" $(ELSEWHERE) $(PYTEST_ARGS) || $(NOTHING_SELECTED)

proof: setup ## run the simulator's own tests, fresh seeds, planted bugs, models, repeated kills (CORPUS=all, TURNS=2: half of the kills)
	@TEST_CORPUS_TURN=$(if $(filter all,$(CORPUS)),,$(FRESH)) TEST_PROOF_TURN=$(if $(TURNS),$(FRESH)/$(TURNS)) $(PYTEST) $(PROOF_WORKERS) -m proof $(or $(PYTEST_ARGS),$(PROVING)) || $(NOTHING_SELECTED)
	@$(SUBMAKE) sim MINUTES=$(or $(MINUTES),0.25)

# Clients of Kafka are installed once, into the user's cache folder, in the pinned versions.
CONFORMANCE := TEST_CONFORMANCE_TARGET=$(or $(TARGET),strandline) $(BIN)/pytest --numprocesses 0

smoke: setup ## run six Kafka clients while a leader and two coordinators are killed (TARGET=kafka)
	@$(CONFORMANCE) tests/conformance/test_smoke.py

conformance: setup ## run Kafka's clients, tools and their own tests; keep the results (TARGET=kafka)
	@TEST_CONFORMANCE_RESULTS=$(or $(RESULTS),tests/conformance/results-$(or $(TARGET),strandline).json) \
		$(CONFORMANCE) tests/conformance $(PYTEST_ARGS)

transfers: setup ## five movers of three clients beside three readers, a broker killed every ten seconds (MINUTES=5)
	@PYTHONPATH=tests $(BIN)/python -m conformance.harness.transfers --minutes $(or $(MINUTES),5)

# Some fifty JVMs of Spark start in the tests: from an archive each takes half the time. It is no
# gate: without it, as without Java, they start as ever.
$(ARCHIVE): $(READY)
	-@$(BIN)/python -m strandline_spark.commands.main prepare && touch $@

# A tree has seeds of its own, so that what CI says of a commit is said again by whoever runs it again.
FRESH := $$(printf '%d' 0x$$(git rev-parse --short=8 'HEAD^{tree}' 2>/dev/null | cut -c 1-8 | grep . || printf '%x' $$(date +%s)))

sim: setup ## simulate this commit's own seeds on every core for a minute (MINUTES=10, FIRST=seed)
	@$(BIN)/strandline chaos sim --minutes $(or $(MINUTES),1) --first $(or $(FIRST),$(FRESH))

spark-kills: setup ## kill Spark's processes, brokers and controller at random (KILLS=, RECORDS=, SEED=)
	@TEST_SPARK_KILLS=$(or $(KILLS),10) TEST_SPARK_RECORDS=$(or $(RECORDS),2000000) \
		TEST_SPARK_SEED=$(or $(SEED),$$(date +%s)) TEST_SPARK_WORKERS=2 \
		$(BIN)/pytest --quiet --capture=no -o faulthandler_timeout=7200 tests/spark/spark/test_spark_random_kills.py

LOWEST := .venv-lowest

lowest: ## run the unit tests with the lowest versions that pyproject.toml allows (once a week)
	@$(PYTHON) -m venv --clear $(LOWEST)
	@$(PYTHON) tools/lowest.py > $(LOWEST)/requirements.txt
	@$(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check -r $(LOWEST)/requirements.txt
	@$(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@$(LOWEST)/bin/pytest --numprocesses $(WORKERS) --dist loadfile --quiet tests/unit

# The versions of Python that are supported. Each that is found gets an environment of its own.
PYTHONS ?= 3.11 3.12 3.13 3.14
PYTHONS_TESTS ?= $(if $(SMALL),tests/unit/proto tests/unit/client tests/unit/broker/storage/log/test_flush_ticket.py,tests/unit tests/golden)

pythons: ## run the unit tests with each supported Python that is found (PYTHONS="3.12 3.13", SMALL=1)
	@$(PYTHON) tools/pythons.py $(if $(SMALL),--small) --tests "$(PYTHONS_TESTS)" $(PYTHONS)

# The versions of PySpark that are supported, each in an environment that has it before .venv's own.
SPARKS ?=

sparks: setup ## run tests of Spark with each supported version of PySpark (SPARKS="4.1 4.2")
	@$(BIN)/python tools/sparks.py $(SPARKS)

dist: setup ## build source distribution and wheel of a release into dist/ (DRAFT=1: any commit; URL=https://…)
	@$(if $(URL),STRANDLINE_URL=$(URL)) $(BIN)/python tools/release.py $(if $(filter-out 0,$(DRAFT)),--draft)

# In a fresh clone each process of tests would compile every test file. This one leaves them compiled.
$(COLLECTED): $(READY)
	-@$(BIN)/pytest --collect-only --quiet $(ELSEWHERE) >/dev/null && touch $@

check: setup ## the quick gates: format, lint, types, contracts, protos, and the tests that take milliseconds
	@$(SUBMAKE) --keep-going -j2 --output-sync=target gates quick-tests

gates: format-check lint types contracts proto-fresh proto-lint docs-fresh console-fresh console-tests

format-check:
	@$(BIN)/ruff format --check --quiet . || \
		{ $(BIN)/ruff format --check . ; echo "run make fmt" >&2; exit 1; }

lint:
	@$(BIN)/ruff check --quiet .

types:
	@$(BIN)/mypy --no-error-summary

contracts:
	@report=$$($(BIN)/lint-imports 2>&1) || { echo "$$report" >&2; exit 1; }

proto-fresh:
	@report=$$($(BIN)/python tools/gen_proto.py --check 2>&1) || { echo "$$report" >&2; exit 1; }
	@$(BIN)/python tools/gen_errors.py --check

proto-lint:
	@$(BIN)/buf lint

docs-fresh:
	@$(BIN)/python tools/gen_docs.py --check

console-fresh:
	@$(BIN)/python tools/gen_console_types.py --check
	@$(BIN)/python tools/console_assets.py --check

# Where `make console` has brought the libraries: the pages that are shipped need no node.
console-tests:
	@test ! -d console/web/node_modules || npm --prefix console/web test --silent >/dev/null || \
		{ npm --prefix console/web test --silent; exit 1; }

quick-tests:
	@TEST_QUICK=1 $(PYTEST) $(WORKERS) --quiet -o faulthandler_timeout=300 -m "not proof" \
		$(ELSEWHERE) tests/tidy tests/unit tests/property tests/golden

fmt: setup ## format the code and repair what the linter can repair
	@$(BIN)/ruff check --quiet --fix-only .
	@$(BIN)/ruff format .

demo: setup ## three brokers, a leader killed, every record in a table (INPUT=file, SMALL=1)
	@$(BIN)/strandline demo flights $(if $(INPUT),--input "$(INPUT)") $(if $(filter-out 0,$(SMALL)),--small)

proto: setup ## generate the committed code from the contract: protobuf and the client's errors
	@$(BIN)/python tools/gen_proto.py
	@$(BIN)/python tools/gen_errors.py

console: setup ## build the console's pages from console/web (node and npm)
	@$(BIN)/python tools/gen_console_types.py
	@$(BIN)/python tools/console_assets.py

screenshots: setup ## pictures of the console's pages, in build/screenshots (Chromium)
	@$(BIN)/python tools/console_screenshots.py

docs: setup ## write docs/reference/ and proof/planted-bugs.md from the code
	@$(BIN)/python tools/gen_docs.py

DOCS := .venv-docs

$(DOCS)/.ready: requirements/docs.txt
	@test -x $(DOCS)/bin/python || $(PYTHON) -m venv $(DOCS)
	@$(DOCS)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/docs.txt
	@touch $@

docs-site: $(DOCS)/.ready ## build the site of the documents into site/, and check its links
	@$(DOCS)/bin/python tools/docs_site.py

bench: setup ## the benchmarks, one after the other (a few minutes)
	@for measure in startup failover produce consume latency log; do \
		$(BIN)/strandline bench $$measure || exit 1; done

# No index address, no local folder of wheels and no option of this machine's pip may reach the files.
COMPILE := env -u PIP_FIND_LINKS $(BIN)/pip-compile --quiet --allow-unsafe --generate-hashes \
	--strip-extras --no-header --no-emit-options

lock: setup ## pin the requirements anew after a change of pyproject.toml (UPGRADE=1: newest versions)
	@$(COMPILE) $(if $(UPGRADE),--upgrade) --all-extras --all-build-deps -o requirements/all.txt pyproject.toml
	@for part in runtime spark build; do cp requirements/all.txt requirements/$$part.txt; done
	@$(COMPILE) --extra broker --extra console -o requirements/runtime.txt pyproject.toml
	@$(COMPILE) --extra broker --extra spark --extra objects -o requirements/spark.txt pyproject.toml
	@$(COMPILE) $(if $(UPGRADE),--upgrade) -o requirements/docs.txt requirements/docs.in
	@$(COMPILE) --only-build-deps --build-deps-for wheel -o requirements/build.txt pyproject.toml

clean: ## remove caches and builds; .venv and clusters stay
	@rm -rf build dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache *.egg-info
	@find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +
