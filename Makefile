# `make` alone lists the targets. Every target that runs anything begins with `setup`, which costs nothing when done.
.DEFAULT_GOAL := help
.PHONY: help setup demo bench test test-long lint format clean distclean

bin := .venv/bin
# Spark takes its Java from JAVA_HOME; the setup has found one that serves and noted it.
with_java = JAVA_HOME="$$(head -n 1 .venv/java-home)"

# Given to pytest as they are: make test ARGS="tests/graph -x"; or to a benchmark: make bench NAME=taxi ARGS=--json
ARGS ?=
NAME ?= --help

export PENSTOCK_LONG_GRAPHS ?= 20000

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1 \t\2/p' $(MAKEFILE_LIST) | expand -t 20

setup: ## make .venv with Penstock and all that it needs, and find Java
	@scripts/setup.sh

demo: setup ## see Penstock at work
	@$(with_java) $(bin)/penstock demo

bench: setup ## measure Penstock and its peers: make bench NAME=taxi ARGS="--scale small"
	$(with_java) $(bin)/python -m benchmarks $(NAME) $(ARGS)

lint: setup ## check style and types
	$(bin)/ruff check
	$(bin)/ruff format --check
	$(bin)/mypy

test: lint ## check style and types, then run the tests and the examples in docstrings (ARGS= goes to pytest)
	$(with_java) $(bin)/python -m pytest -n 2 --dist worksteal $(ARGS)

test-long: setup ## run the long tests, on PENSTOCK_LONG_GRAPHS random graphs, for PENSTOCK_LONG_SECONDS if that is set
	$(with_java) $(bin)/python -m pytest -n 2 -m long $(ARGS)

format: setup ## put the code in the house form, and mend what can be mended by itself
	$(bin)/ruff check --fix
	$(bin)/ruff format

clean: ## remove caches and built files, but not .venv
	rm -rf .hypothesis .mypy_cache .pytest_cache .ruff_cache build dist spark-warehouse metastore_db derby.log
	find src examples benchmarks tests -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean ## remove .venv too
	rm -rf .venv
