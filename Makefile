# Every target sets up what it needs in .venv; on a fresh clone only Python 3.10+ and Java 17 are there. Python compiles what is imported when it is.
PYTHON ?= python3
VENV := .venv
OLDEST := .venv-oldest
NEWEST := .venv-newest
CLIENT := .venv-client
COMPAT := .venv-compat
DUCKDB := 1.5.5# the newest for which there is the package duckdb-extension-delta
BIN := $(VENV)/bin
ICEBERG := tests/functional/inputs/test_iceberg.py
ROUGH := tests/functional/rough tests/fault $(patsubst %,tests/functional/%.py,cli/test_past cli/test_plan_against cli/test_undo cli/test_watch \
  connection/test_class_archive connection/test_default_profile connection/test_warm_session continual_task/test_dbt_tables materialization/test_columns \
  materialization/test_explain materialization/test_frames materialization/test_incremental materialization/test_listings \
  materialization/test_wide)
# dbt's suites of what the adapter inherits as it is, and the wrong rules that random queries must notice: CI has no time for them. Nor
# for the tests with the mark `seldom`.
SELDOM := $(patsubst %,tests/functional/adapter/test_%.py,clone_and_show constraints data_types docs ephemeral grants hooks incremental packages \
  relations seeds snapshots store_failures unit_tests utils) \
  tests/property/test_incremental_mutants.py
# Imports, lengths and documents: `make lint` reads them, so that nothing is committed that breaks them.
STRUCTURE := tests/unit/test_layers.py tests/unit/test_docs.py
SUITES := $(addprefix tests/functional/,materialization continual_task connection $(addprefix cli/test_,plan.py past.py undo.py))
# The parts of `make tables` and of `make servers`, over a warm session, that CI has the time for.
TABLED := $(patsubst %,tests/functional/%.py,materialization/test_behaviours continual_task/test_model cli/test_plan cli/test_past cli/test_undo)
WARMED := $(patsubst %,tests/functional/%.py,materialization/test_behaviours materialization/test_listings continual_task/test_model connection/test_cursor cli/test_plan cli/test_undo)
# Every process of pytest-xdist collects the same tests in the same order, sets included.
export PYTHONHASHSEED := 0
# Python keeps what it has compiled, even in a container that says it should not: else every process compiles dbt and this package
# again, which is half of the time that their import takes.
export PYTHONDONTWRITEBYTECODE :=
PYTEST_ARGS ?= -n 2 --dist loadfile --no-loadscope-reorder

.PHONY: setup constraints test rough seldom tables long lint smoke smoke-oldest smoke-newest smoke-editable smoke-client compat servers demo bench clean

setup: $(VENV)/.done $(VENV)/duckdb/.both-$(DUCKDB)

$(VENV)/.done: pyproject.toml constraints.txt hatch_build.py
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet --no-compile --constraint constraints.txt --editable '.[dev,demo,bench]'
	touch $@

# DuckDB with its extensions for Delta and Iceberg tables, for the demo and the tests of published tables: see
# example_project/duckdb_delta.py. Where they cannot be downloaded, all else works, and the demo says that DuckDB reads nothing.
$(VENV)/duckdb/.both-$(DUCKDB): | $(VENV)/.done
	rm -rf $(@D)
	$(BIN)/pip install --quiet --no-compile --retries 1 --target $(@D) $(foreach each,delta avro iceberg,duckdb-extension-$(each)==$(DUCKDB)) && touch $@ \
	  || echo "the extensions of DuckDB are not installed"

# The newest versions that fit together, for every Python from 3.10; run `make test` with them before they are committed.
constraints: setup
	$(BIN)/pip install --quiet --constraint constraints.txt uv
	$(BIN)/uv pip compile --quiet --universal --upgrade --python-version 3.10 --no-header --no-annotate --no-emit-index-url \
	  --extra dev --extra demo --extra bench pyproject.toml --output-file constraints.txt

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python tests/lint/dialect.py
	$(BIN)/python -m pytest --quiet $(STRUCTURE)

test: lint $(VENV)/java-classes.jsa
	$(BIN)/python -m pytest $(PYTEST_ARGS) -m "not seldom" $(addprefix --ignore=,$(ROUGH) $(SELDOM) $(ICEBERG) $(STRUCTURE))

# What takes longest: whole projects over tables as they are in real life, some of five million rows;
# whole runs killed at every step, and at once; watches; sessions in processes of their own; Spark
# Connect and Thrift; some suites with published tables, some over a warm session; an object store, on which the shard layer
# has the same contract; Iceberg's tables.
rough: $(VENV)/java-classes.jsa
	$(BIN)/python -m pytest $(PYTEST_ARGS) -m "not seldom" $(ROUGH)
	$(BIN)/python -m pytest $(PYTEST_ARGS) --tables delta -m "not seldom" $(TABLED)
	$(BIN)/python -m pytest $(PYTEST_ARGS) --method warm -m "not seldom" $(WARMED)
	MVSINK_FORMATS=delta,iceberg $(BIN)/python -m pytest $(ICEBERG) \
	  $(addprefix tests/functional/materialization/test_iceberg_tables.py::,TestByPath test_spark_reads_it_in_the_profiles_catalog)
	MVSINK_OBJECT_STORE=1 $(BIN)/python -m pytest $(PYTEST_ARGS) tests/unit/shard/test_contract.py tests/unit/shard/test_reading.py

# Not in CI: before a release, and when rules, macros or the adapter's methods change.
seldom: $(VENV)/java-classes.jsa
	$(BIN)/python -m pytest $(PYTEST_ARGS) $(SELDOM)
	$(BIN)/python -m pytest $(PYTEST_ARGS) -m seldom $(addprefix --ignore=,$(SELDOM)) tests/functional tests/property tests/fault tests/unit

# What takes hours, not in CI: it can be stopped, and the same command goes on where it was. One thing:
# make long LONG=generated SEED=2 COUNT=1000
LONG ?= $(patsubst tests/long/%.py,%,$(shell grep -l __main__ tests/long/*.py))
SEED ?= 1
long: $(VENV)/java-classes.jsa
	for thing in $(LONG); do $(BIN)/python -m tests.long.$$thing --seed $(SEED) $(if $(COUNT),--count $(COUNT)) || exit 1; done

# The functional suites of views, tasks and connections, and of plan, diff, history and undo, over a Spark Connect server, a Thrift server and a warm session.
servers: $(VENV)/java-classes.jsa
	$(BIN)/python -m pytest $(PYTEST_ARGS) --method connect $(SUITES)
	$(BIN)/python -m pytest $(PYTEST_ARGS) --method thrift $(SUITES)
	$(BIN)/python -m pytest $(PYTEST_ARGS) --method warm $(SUITES)

# The same suites with every model published as a Delta table, and with half of them, which other engines read after each run.
tables: $(VENV)/java-classes.jsa
	$(BIN)/python -m pytest $(PYTEST_ARGS) --tables delta $(SUITES)
	$(BIN)/python -m pytest $(PYTEST_ARGS) --tables mixed $(SUITES)

# What every JVM of the tests would otherwise read and verify again: 7 of the 18 seconds that a `dbt run` in a process of its own takes.
$(VENV)/java-classes.jsa: $(VENV)/.done
	$(BIN)/python -m tests.support.quick_java

# The package as users install it, with the oldest and the newest of what it needs (dbt-core 1.10 and 1.12), each in an environment of its own.
# dbt-core 1.11 is in .venv, where the package is installed editable. Delta's jar for the newest PySpark is not out yet.
smoke: smoke-oldest smoke-newest smoke-editable smoke-client

smoke-oldest smoke-newest: smoke-%: .venv-%/.done
	.venv-$*/bin/uv pip install --quiet --python .venv-$*/bin/python --reinstall --no-deps .
	.venv-$*/bin/python -m pytest tests/smoke/test_installed.py

smoke-editable: setup
	$(BIN)/python -m pytest tests/smoke/test_installed.py -k dbt_init

# PySpark's client and no Java: the server that it reaches is the PySpark of .venv.
smoke-client: setup $(CLIENT)/.done
	$(CLIENT)/bin/uv pip install --quiet --python $(CLIENT)/bin/python --reinstall --no-deps .
	$(BIN)/python -m pytest tests/smoke/test_client.py

SMOKE := .[session] pytest>=8 pytest-timeout>=2.3 dbt-tests-adapter>=1.19
$(OLDEST)/.done: UV_ARGS := --resolution lowest-direct
$(NEWEST)/.done: UV_ARGS := --override tests/smoke/overrides.txt dbt-core>=1.12 pyspark>=4.3
$(CLIENT)/.done: UV_ARGS := --override tests/smoke/overrides.txt
$(CLIENT)/.done: SMOKE := .[connect]
$(OLDEST)/.done $(NEWEST)/.done $(CLIENT)/.done: pyproject.toml tests/smoke/overrides.txt
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/pip install --quiet uv
	$(@D)/bin/uv pip install --quiet --python $(@D)/bin/python $(foreach each,$(UV_ARGS) $(SMOKE),'$(each)')
	touch $@

# The table in the README: the smoke suite with combinations of dbt-core, PySpark and Python. Half an hour.
compat:
	$(PYTHON) -m venv $(COMPAT)
	$(COMPAT)/bin/pip install --quiet uv
	$(COMPAT)/bin/python -m tests.smoke.compat; code=$$?; rm -rf $(COMPAT); exit $$code

demo: setup
	$(BIN)/python example_project/demo.py

# `make bench QUICK=1` runs each benchmark once, on little data, with Java as tests want it: that they run, not what they cost.
QUICKLY = JDK_JAVA_OPTIONS="$$($(BIN)/python -m tests.support.quick_java options)" $(BIN)/python
bench: setup $(if $(QUICK),$(VENV)/java-classes.jsa)
ifdef QUICK
	$(QUICKLY) -m benchmarks.wide_join --scale 0.01 --rounds 1 --warm 0 --first-load --verify --shares nothing "1 %"
	$(QUICKLY) -m benchmarks.side_by_side --scale 0.01 --shares 0.01 --rounds 1 --warm 0
	$(QUICKLY) -m benchmarks.unchanged --scale 0.01 --rounds 1 --warm 1
	$(QUICKLY) -m benchmarks.many_unchanged --models 5 --threads 2 --rounds 1 --warm 0
	$(QUICKLY) -m benchmarks.small_models --models 1 --rounds 1 --warm 1
	$(QUICKLY) -m benchmarks.incremental --scale 0.01 --share 0.01 --rounds 1 --warm 0 --where recent --models "wide join" "TPC-H 1"
	$(QUICKLY) -m benchmarks.plans --scale 0.01 --share 0.01 --rounds 1 --warm 0
	$(QUICKLY) -m benchmarks.choice --scale 0.01 --rounds 1 --shares 0.01 --models "TPC-H 12"
	$(QUICKLY) -m benchmarks.tpcdi --scale 0.001 --select +fact_cash_balances --variants parquet always --batches 0.02 --rebuild last --warm 0
	$(QUICKLY) -m benchmarks.published --scale 0.01 --rounds 1 --warm 0 --steps recent load
	$(QUICKLY) -m benchmarks.kept_history --scale 0.01 --rounds 1
	$(QUICKLY) -m benchmarks.table_import --rows 3000 --rounds 1 --warm 0
else
	$(BIN)/python -m benchmarks.bench
	$(BIN)/python -m benchmarks.wide_join --first-load --verify --against merge incremental --against-rounds 1
	$(BIN)/python -m benchmarks.unchanged
	$(BIN)/python -m benchmarks.many_unchanged
	$(BIN)/python -m benchmarks.incremental
	$(BIN)/python -m benchmarks.plans
	$(BIN)/python -m benchmarks.side_by_side --shares 0.0001 0.001 0.01 0.03 0.1
	$(BIN)/python -m benchmarks.choice
	$(BIN)/python -m benchmarks.tpcdi
	$(BIN)/python -m benchmarks.tasks
	$(BIN)/python -m benchmarks.published
	$(BIN)/python -m benchmarks.table_import
	$(BIN)/python -m benchmarks.kept_history
	$(BIN)/python -m benchmarks.small_models
	$(BIN)/python -m benchmarks.small_models --cold --models 1 10 --rounds 3
endif

clean:
	rm -rf $(VENV) $(OLDEST) $(NEWEST) $(CLIENT) $(COMPAT) example_project/data example_project/.mvsink example_project/target benchmarks/data
