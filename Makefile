PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: demo test lint bench-models bench-facts clean

# The main job on the shipped example: find the graph breaks, show the patch, and prove it by running the model.
demo: $(VENV)/.installed
	$(BIN)/gbfix --verify --diff --unsafe-fixes --exit-zero --entry examples/speech/model.py:build --inputs examples/speech/model.py:make_inputs examples/speech

# Lint, types and every test.
test: lint
	$(BIN)/python -m pytest

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Real models: installs a pinned transformers in an environment of its own and writes benchmarks/results/models.json.
bench-models: $(VENV)-bench/.installed
	$(VENV)-bench/bin/python benchmarks/models/run.py

# What gbfix finds in transformers against what Dynamo logs there; writes benchmarks/results/facts.json.
bench-facts: $(VENV)-facts/.installed
	$(VENV)-facts/bin/python benchmarks/facts/run.py

$(VENV)/.installed: pyproject.toml requirements/test.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -r requirements/test.txt -e ".[dev]"
	touch $@

$(VENV)-bench/.installed: pyproject.toml benchmarks/models/requirements.txt
	$(PYTHON) -m venv $(VENV)-bench
	$(VENV)-bench/bin/python -m pip install --quiet --upgrade pip
	$(VENV)-bench/bin/python -m pip install --quiet -r benchmarks/models/requirements.txt -e .
	touch $@

$(VENV)-facts/.installed: pyproject.toml benchmarks/facts/requirements.txt
	$(PYTHON) -m venv $(VENV)-facts
	$(VENV)-facts/bin/python -m pip install --quiet --upgrade pip
	$(VENV)-facts/bin/python -m pip install --quiet -r benchmarks/facts/requirements.txt -e .
	touch $@

clean:
	rm -rf $(VENV) $(VENV)-bench $(VENV)-facts .mypy_cache .ruff_cache .pytest_cache
