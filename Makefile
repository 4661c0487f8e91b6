# Every target sets up what it needs in .venv; on a fresh clone only Python 3.10+ and Java 17 are there. Python compiles what is imported when it is.
PYTHON ?= python3
VENV := .venv
NEWEST := .venv-newest
BIN := $(VENV)/bin
PYTEST_ARGS ?= -n 2 --dist loadfile --no-loadscope-reorder

.PHONY: setup test lint smoke demo bench clean

setup: $(VENV)/.done

$(VENV)/.done: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet --no-compile --editable '.[dev,demo,bench]'
	touch $@

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: lint $(VENV)/java-classes.jsa
	$(BIN)/python -m pytest $(PYTEST_ARGS)

# What every JVM of the tests would otherwise read and verify again: 7 of the 18 seconds that a `dbt run` in a process of its own takes.
$(VENV)/java-classes.jsa: $(VENV)/.done
	$(BIN)/python -m tests.support.quick_java

# The package as users install it, on the newest PySpark (Delta's jar for it is not out yet); in an environment of its own.
smoke: $(NEWEST)/.done
	$(NEWEST)/bin/pip install --quiet --force-reinstall --no-deps .
	$(NEWEST)/bin/python -m pytest tests/smoke

$(NEWEST)/.done: pyproject.toml
	$(PYTHON) -m venv $(NEWEST)
	$(NEWEST)/bin/pip install --quiet --upgrade pip
	$(NEWEST)/bin/pip install --quiet --no-compile . 'pyspark>=4.3,<5' 'dbt-core>=1.11,<1.12' dbt-tests-adapter pytest
	touch $@

demo: setup
	$(BIN)/python example_project/demo.py

bench: setup
	$(BIN)/python -m benchmarks.bench
	$(BIN)/python -m benchmarks.tasks

clean:
	rm -rf $(VENV) $(NEWEST) example_project/data example_project/.mvsink example_project/target benchmarks/data
