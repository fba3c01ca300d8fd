# `make help` lists the targets. Each creates its own environment in .venv. Missing tools are named with the command that
# installs them. Tests that need them are skipped on a developer's machine and fail where CI=true.

SHELL := /bin/sh
VENV := .venv
PORT := 9092
BIN := $(VENV)/bin
APT := apt-get install -y
CHECKED := kafka_offsets
BENCH_ARGS := --docs
PEERS := --kafka
BESIDE_SERVING := --beside-serving --records 300000 --groups 300
SPHINX = $(BIN)/python -m sphinx -q -W -n --keep-going -d build/doctrees
# A worker for each processor and two more, as many tests wait for sockets and JVMs, up to four; `make test WORKERS=0` runs all
# tests in one process. tests/conftest.py says which tests stay together.
WORKERS := $(shell expr $$(getconf _NPROCESSORS_ONLN) + 2) --maxprocesses 4
# Quick tests wait seldom.
QUICK_WORKERS := $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1) --maxprocesses 4
# What `make quick` does not even import: other clients, Spark, long searches, and what no request passes through.
NOT_QUICK := interop processes zookeeper spark properties simulation inspect testing http questions walks test_examples.py \
	test_lifetime.py test_cli.py test_check_command.py test_compact_command.py test_serve_options.py test_progress.py
QUICK := $(filter-out $(addprefix tests/,$(NOT_QUICK)),$(patsubst %/,%,$(dir $(wildcard tests/*/test_*.py $(addsuffix /*/test_*.py,tests/broker tests/coordinator tests/storage)))) $(wildcard tests/test_*.py))
COVERED = $(sort $(QUICK) $(addprefix tests/,inspect testing http $(filter test_c% test_l% test_p% test_s%,$(NOT_QUICK))))
export KAFKA_OFFSETS_JARS ?= $(CURDIR)/$(VENV)/jars
export KAFKA_OFFSETS_SPARK_JARS ?= $(CURDIR)/$(VENV)/spark-jars
export KAFKA_OFFSETS_NODE_MODULES ?= $(CURDIR)/$(VENV)/node/node_modules
# For the examples in JavaScript and their runners, and the client that a generator makes of /openapi.json.
NODE_PACKAGES := axe-core@4 kafkajs@2 jest@29 vitest@3 openapi-typescript@7 openapi-fetch@0.17 typescript@5 @types/node@20
# Without the caches of modules and of rewritten assertions, every run compiles all of them.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help run test quick quick-tests coverage fresh stranger lint bench bench-parts stress kill-loop zookeeper-kill-loop zookeeper-cluster-loop processes exactly-once crash-states torn-tails flipped-bits simulation replication cluster-simulation linearizability spark-logs spark-versions disk-errors kfake-loss generators fuzz mutation suites other-tools differential walks requests docs linkcheck one-file stub clean tools
.DEFAULT_GOAL := help

## This list.
help:
	@awk '/^## / { text = text (text == "" ? "" : "\n                         ") substr($$0, 4); next } \
		/^[a-z-]+:/ && text != "" { split($$0, name, ":"); printf "%-24s %s\n", name[1], text } { text = "" }' Makefile

## A broker on 127.0.0.1:9092 (PORT=… for another port), its data in ./data.
run: $(VENV)/run.stamp
	$(BIN)/kafka-offsets serve --port $(PORT) --data-dir ./data

# All steps run, also when one fails, so that one look shows everything. Style, types and pages are checked beside the tests,
# which often wait for sockets and JVMs; their output comes after that of the tests. The tests are collected once before: the
# first collection compiles all modules, which each worker would do by itself.
## Everything that must be green: style, types, pages, tests.
test: $(VENV)/test.stamp $(VENV)/docs.stamp tools
	@failed=; mkdir -p build; \
	nice $(MAKE) --no-print-directory --keep-going lint docs > build/checks.txt 2>&1 & checks=$$!; \
	$(BIN)/python -m pytest --collect-only -qq > build/collected.txt 2>&1; \
	$(BIN)/python -m pytest -n $(WORKERS) $(PYTEST_ARGS) || failed="$$failed pytest"; \
	wait $$checks || failed="$$failed lint-or-docs"; \
	cat build/checks.txt; \
	if [ -n "$$failed" ]; then echo "make test: failed:$$failed" >&2; exit 1; fi; \
	echo "make test: all is well"

# Style and types run beside the tests. mypy and ruff keep caches, so only the first run takes their full time.
## For the loop of a change: style, types, and the quick tests: no JVM, no other client, nothing slow.
quick: $(VENV)/test.stamp
	@$(MAKE) --no-print-directory --keep-going --jobs=2 lint quick-tests

## The tests of `make quick` alone.
quick-tests: $(VENV)/test.stamp
	@$(BIN)/python -m pytest -q -n $(QUICK_WORKERS) --durations=5 --durations-min=2 \
		-m "not (slow or interop or java or spark or apache_kafka)" $(PYTEST_ARGS) $(sort $(QUICK))

# A process that a test kills does not report. Spark's tests do not run, so setup.cfg omits its part of the package.
# The deselected test lists the modules of a new process, and coverage's own would be among them.
## Coverage of lines and branches by the tests without a JVM and other clients; pages in build/coverage/html.
coverage: $(VENV)/test.stamp
	@rm -rf build/coverage && mkdir -p build/coverage
	@$(BIN)/python -m coverage run -m pytest -q -n $(QUICK_WORKERS) \
		--timeout=600 -m "not (interop or java or spark or apache_kafka)" \
		--deselect tests/test_cli.py::test_the_command_line_brings_in_no_more_than_it_needs $(PYTEST_ARGS) $(COVERED)
	@$(BIN)/python -m coverage combine --quiet
	@$(BIN)/python -m coverage html --quiet
	@echo "coverage of lines and branches: $$($(BIN)/python -m coverage report --format=total) %"

## `make run` and `make test` of HEAD as on a new machine: a clone, with empty caches.
fresh:
	bash tests/fresh.sh

## Plays somebody who has only the README, from a clone to a green test of their own, and writes the log into
## docs/performance.md.
stranger: $(VENV)/test.stamp
	$(BIN)/python -m tests.stranger --docs

## Style and types only.
lint: $(VENV)/test.stamp
	@failed=0; \
	for step in "ruff check ." "ruff format --check ." "mypy --strict $(CHECKED)"; do \
		echo "--- $$step"; $(BIN)/python -m $$step || failed=1; \
	done; exit $$failed

## The table of docs/performance.md and its pictures: requests compared with Apache Kafka and kfake, and how the cost grows.
## BENCH_ARGS=--quick: ten minutes, into build/performance. BENCH_ARGS="--docs --without kafka": no JVM. Needs Go.
bench: $(VENV)/test.stamp
	$(BIN)/python -m benchmarks.broker_table $(BENCH_ARGS)
	$(BIN)/python -m benchmarks.broker_table --growth $(BENCH_ARGS)

# All are run, also when one fails, say for want of a tool. `make bench-parts PEERS=` measures our broker alone.
## The benchmarks of parts, each a file of benchmarks/: codecs, logs, starts, failovers, Spark (PEERS= without Kafka).
bench-parts: $(VENV)/test.stamp
	@failed=; \
	$(BIN)/python -m pip install --quiet --disable-pip-version-check kio; \
	for file in benchmarks/*.py benchmarks/small_test; do \
		case $$file in \
			benchmarks/load.py|benchmarks/compaction.py|benchmarks/encrypted.py) options="$(PEERS)" ;; \
			benchmarks/fuzz_codecs.py|benchmarks/servers.py) continue ;; \
			*) options= ;; \
		esac; \
		echo "--- $$file $$options"; PYTHONPATH="$(CURDIR)" $(BIN)/python "$$file" $$options || failed="$$failed $$file"; \
	done; \
	echo "--- benchmarks/compaction.py $(BESIDE_SERVING)"; \
	$(BIN)/python benchmarks/compaction.py $(BESIDE_SERVING) || failed="$$failed beside-serving"; \
	if [ -n "$$failed" ]; then echo "make bench-parts: failed:$$failed" >&2; exit 1; fi

## The long forms of the tests: 100 times kill -9, 100,000 mutated frames, long searches.
stress: $(VENV)/test.stamp tools
	KAFKA_OFFSETS_COMPACTION_ROUNDS=1000 KAFKA_OFFSETS_KILL_ROUNDS=100 KAFKA_OFFSETS_COPY_ROUNDS=20 KAFKA_OFFSETS_FUZZ_FRAMES=100000 HYPOTHESIS_PROFILE=long \
		$(BIN)/python -m pytest --timeout=7200 $(PYTEST_ARGS)

## kill -9 under load, 1,000 times for each fsync policy; resumes, in .crash.
## CRASH_ARGS=--compacting: with compaction every 50 ms, compared with replays.
kill-loop: $(VENV)/test.stamp
	$(BIN)/python -m tests.interop.kill_loop $(CRASH_ARGS)

## Commits while ZooKeeper is killed, paused and expires sessions, 50 rounds. ZOOKEEPER_ARGS="--rounds 500 --seed 2".
zookeeper-kill-loop: $(VENV)/test.stamp
	$(BIN)/python -m tests.zookeeper.kill_loop $(ZOOKEEPER_ARGS)

## 200 kills, stops, pauses and partitions of brokers that are processes, under eight clients.
## PROCESSES_ARGS="--of zookeeper" or "--of kafka".
processes: $(VENV)/test.stamp
	$(BIN)/python -m tests.processes.campaign $(PROCESSES_ARGS)

## Brokers of `serve --zookeeper` and ZooKeeper are killed and paused under commits, 50 rounds. ZOOKEEPER_ARGS as above.
zookeeper-cluster-loop: $(VENV)/test.stamp
	$(BIN)/python -m tests.zookeeper.cluster_loop $(ZOOKEEPER_ARGS)

## kill -9 of broker and copier during transactions, 100 times for each policy; resumes, in .crash.
exactly-once: $(VENV)/test.stamp
	$(BIN)/python -m tests.interop.exactly_once $(CRASH_ARGS)

## Clients made of /openapi.json by five generators, compiled and run: npm, Go, Java, Rust. GENERATORS="rust java".
generators: $(VENV)/test.stamp tools
	$(BIN)/python -m tests.generators.run $(GENERATORS)

## Proof that the test of torn tails can fail: it finds that kfake loses commits. Needs Go.
kfake-loss: $(VENV)/test.stamp
	@command -v go >/dev/null || { echo "make: Go is missing; install it from https://go.dev/dl" >&2; exit 1; }
	cd benchmarks/peers/kfake && go build -o $(CURDIR)/$(VENV)/kfake .
	KAFKA_OFFSETS_KFAKE=$(CURDIR)/$(VENV)/kfake $(BIN)/python -m pytest -rA tests/interop/test_torn_tail.py

## The log cut at each of its last 65,536 bytes, with four fillings; resumes, in .crash.
torn-tails: $(VENV)/test.stamp
	$(BIN)/python -m tests.storage.crash.torn_tails $(CRASH_ARGS)

## A bit flipped in every byte of a directory of 100 KiB; resumes, in .crash.
## CRASH_ARGS="--large 100000": in that many bytes of 100 MiB.
flipped-bits: $(VENV)/test.stamp
	$(BIN)/python -m tests.storage.crash.flipped_bits $(CRASH_ARGS)

## 1,000 histories of offsets under 16 clients, each checked against a register.
linearizability: $(VENV)/test.stamp
	$(BIN)/python -m tests.properties.linearizability $(CRASH_ARGS)

## 100,000 seeds of 200 steps of clients, crashes and clocks beside an oracle; resumes, in .crash.
simulation: $(VENV)/test.stamp
	$(BIN)/python -m tests.simulation.campaign $(CRASH_ARGS)

## 5,000 seeds of 200 steps of replicas, a controller, crashes and a bad network; resumes, in .crash.
replication: $(VENV)/test.stamp
	$(BIN)/python -m tests.simulation.campaign --of tests.replication.simulation --seeds 5000 $(CRASH_ARGS)

# Both run, also when the first one fails.
## 5,000 seeds of 200 steps of three to five whole brokers, and 5,000 with ZooKeeper; resumes, in .crash.
cluster-simulation: $(VENV)/test.stamp
	@failed=0; for form in cluster cluster.zookeeper; do \
		$(BIN)/python -m tests.simulation.campaign --of tests.simulation.$$form --seeds 5000 $(CRASH_ARGS) || failed=1; \
	done; exit $$failed

## The state of 1,000 logs by Spark and by the coordinator, before and after compaction.
spark-logs: $(VENV)/test.stamp tools
	KAFKA_OFFSETS_SPARK_LOGS=1000 $(BIN)/python -m pytest --timeout=7200 tests/spark/test_state.py tests/spark/test_expiring.py

SPARK_VERSIONS := 3.5 4.0
SPARK_TESTS := tests/spark/test_kafka_source.py tests/spark/test_kafka_streaming.py tests/spark/test_kafka_sink.py \
	tests/spark/test_progress.py tests/spark/test_tests_session.py

# Each in an environment of its own; the connector of the version is what kafka_offsets.spark.connector names.
## The tests of Spark's Kafka source, sink, listener and fixture with PySpark 3.5 and 4.0.
spark-versions:
	@failed=0; for version in $(SPARK_VERSIONS); do bash tests/spark/version.sh $$version "$(CURDIR)/$(VENV)" $(SPARK_TESTS) || failed=1; done; exit $$failed

## Every file operation refused in turn, full disks, no descriptors, 100 stale locks.
disk-errors: $(VENV)/test.stamp
	KAFKA_OFFSETS_DISK_ERRORS=all KAFKA_OFFSETS_LOCK_ROUNDS=100 $(BIN)/python -m pytest -rs \
		tests/broker/core/test_disk_errors.py tests/interop/test_limits_of_the_system.py tests/interop/test_lock.py

## A million states that a crash leaves on the disk; resumes, in .crash.
crash-states: $(VENV)/test.stamp
	$(BIN)/python -m tests.storage.crash.crash_states $(CRASH_ARGS)

## 10,000,000 executions of the decoders with atheris; resumes, in .fuzz.
fuzz: $(VENV)/test.stamp
	$(BIN)/python -m pip install --quiet --disable-pip-version-check atheris
	$(BIN)/python benchmarks/fuzz_codecs.py

## Changes to the code by mutmut: does a test see each of them? MUTATION_ARGS="--sample 20"; resumes, in .crash.
mutation: $(VENV)/test.stamp
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'mutmut ~= 3.8.1'
	$(BIN)/python -m tests.mutation $(MUTATION_ARGS)

## Test suites of other projects, with our broker and a real Kafka. Needs Go, Java 17, Maven and port 9092.
suites: $(VENV)/test.stamp
	@for tool in go java mvn; do \
		command -v $$tool >/dev/null || { echo "make: $$tool is missing; the suites need Go, Java 17 and Maven" >&2; exit 1; }; \
	done
	$(BIN)/python -m tests.suites $(SUITES_ARGS)

# Not part of `make test`: 350 MB of programs that few need, and a minute of tests.
## Frameworks, exporters and Kafka Connect with our broker: installs those that can be had, and runs their tests. Java 17, Maven, Go.
other-tools: $(VENV)/test.stamp
	bash tests/interop/tools/install.sh $(KAFKA_OFFSETS_JARS)/../tools $(BIN)/python
	$(BIN)/python -m pytest -rs tests/interop/test_other_tools.py tests/interop/test_connect.py tests/interop/test_move.py

## Plays 500 random walks of requests with a real Kafka and ours, and shortens what differs. Needs Java 17 and Maven.
walks: $(VENV)/test.stamp
	$(BIN)/python -m tests.walks $(WALKS_ARGS)

## Asks a real Kafka and ours 570 walks of requests that are drawn from the schemas, and shortens what differs.
requests: $(VENV)/test.stamp
	$(BIN)/python -m tests.walks --only "^requests of" --walks 570 $(WALKS_ARGS)

## Plays tests/stories with a real Kafka and writes its answers there. Needs Java 17 and Maven.
differential: $(VENV)/test.stamp
	$(BIN)/python -m tests.stories.record $(DIFFERENTIAL_ARGS)

## The pages of docs/ as HTML in build/docs, with the API from the docstrings. A broken link is an error,
## and so is a page that does not fit into a window or is hard to read (where there is a chromium).
docs: $(VENV)/docs.stamp
	$(SPHINX) -b html docs build/docs
	$(BIN)/python -m tests.documents.widths

## Requests every outside page that docs/ links to.
linkcheck: $(VENV)/docs.stamp
	$(SPHINX) -b linkcheck docs build/linkcheck

## One file with the command, in build/kafka-offsets.pyz: it needs the same Python and kind of machine, and nothing else.
one-file: $(VENV)/test.stamp
	rm -rf build/lib build/wheel
	$(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation -w build/wheel .
	$(BIN)/python .ci/one_file.py build/wheel/*.whl build/kafka-offsets.pyz

## Writes protocol/messages.pyi from the schemas.
stub: $(VENV)/run.stamp
	$(BIN)/python -m tests.protocol.stub > $(VENV)/messages.pyi
	mv $(VENV)/messages.pyi kafka_offsets/protocol/messages.pyi

## Removes what the others made, but not ./data.
clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The oldest Python that serves: what it runs, the others run.
$(VENV)/python.stamp:
	@set -e; python=$$(PYTHON="$(PYTHON)" sh .ci/pythons | head -n 1); \
	if [ -z "$$python" ]; then \
		echo "make: Python 3.11 or later with venv is missing; install it by: $(APT) python3 python3-venv" \
			"(or set PYTHON=/path/to/python3)" >&2; \
		exit 1; \
	fi; \
	"$$python" -m venv --clear $(VENV); \
	touch $@

$(VENV)/run.stamp: $(VENV)/python.stamp setup.cfg pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	$(BIN)/python -m compileall -q kafka_offsets
	@touch $@

$(VENV)/test.stamp: $(VENV)/python.stamp setup.cfg pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	@touch $@ $(VENV)/run.stamp

# Beside run.stamp, so that the pages can be built without what the tests need.
$(VENV)/docs.stamp: $(VENV)/python.stamp setup.cfg pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	@touch $@

# What the tests use beside Python. A tool that is missing is said here, before the tests and not in the middle of them.
## Names the tools that the tests use and that are missing.
tools: $(VENV)/python.stamp
	@missing=; \
	absent() { echo "make: $$1 is missing: its tests are skipped; install it by: $$2" >&2; missing=1; }; \
	command -v kcat >/dev/null || absent kcat "$(APT) kcat"; \
	command -v javac >/dev/null || absent "a JDK" "$(APT) openjdk-17-jdk-headless"; \
	jars() { \
		if ls "$$1"/$$2-*.jar >/dev/null 2>&1; then return; fi; \
		if ! command -v mvn >/dev/null; then absent $$2.jar "$(APT) maven"; \
		elif ! bash benchmarks/peers/jars.sh $$3 "$$1"; then \
			absent $$2.jar "make tools, where Maven can load it"; \
		fi; \
	}; \
	jars "$(KAFKA_OFFSETS_JARS)" kafka-clients tests/interop/java/pom.xml; \
	jars "$(KAFKA_OFFSETS_SPARK_JARS)" spark-sql-kafka tests/spark/pom.xml; \
	jars "$(KAFKA_OFFSETS_JARS)/../junit" junit-platform-console-standalone tests/interop/java/junit.xml; \
	if command -v npm >/dev/null && [ ! -d "$(KAFKA_OFFSETS_NODE_MODULES)/axe-core" ]; then \
		npm install --silent --no-audit --no-fund --prefix "$(KAFKA_OFFSETS_NODE_MODULES)/.." $(NODE_PACKAGES) || \
			echo "make: packages of npm cannot be loaded: the tests that need them are skipped" >&2; \
	fi; \
	if [ -n "$$missing" ] && [ "$$CI" = true ]; then echo "make: with CI=true that is a failure" >&2; exit 1; fi
