# Everything that a checkout needs is installed into .venv; no other set-up.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Instead of news about mkdocs at every build.
export NO_MKDOCS_2_WARNING := 1

.PHONY: run test test-long test-torch test-trained test-browser test-gpu test-oldest fuzz check docs gallery notebooks bench selfcheck clean

run: $(VENV)/.installed
	$(BIN)/labelcert warm hinge
	$(BIN)/labelcert certify karate --per-class 4 --C 10 --model gcn --model appnp --report report.html
	$(BIN)/labelcert recheck karate --per-class 4 --C 10 --flips 2 --confirm 3

# Tests come first, and each step says what it is.
test: $(VENV)/.tested
	@echo "1 of 2: tests, about 13 minutes on two idle cores ('make test-long' has longer ones)"
	$(BIN)/python -m pytest -n auto --dist loadfile
	@echo "2 of 2: format, style, types, imports and documentation, about 2 minutes"
	@$(MAKE) --no-print-directory check

test-long: $(VENV)/.tested
	$(BIN)/python -m pytest -n auto --dist loadfile -m "long or not long"

# PyTorch is large, so all other tests do without it.
test-torch: $(VENV)/.tested
	$(BIN)/python -m pip install --quiet torch==2.13.0 "torch_geometric>=2.4"
	$(BIN)/python -m pytest tests/graphs/test_other_libraries.py tests/models/test_networks.py \
		tests/models/test_finite_networks.py tests/finite \
		"tests/test_notebooks.py::test_prints_what_is_stored[pytorch-geometric]"
	$(BIN)/python -m pytest tests/test_docs.py -k "README or pyg or finite or models"

# The page about a GCN of one's own trains 64 networks, after `make test-torch`.
test-trained: $(VENV)/.tested
	$(BIN)/python -m pytest tests/test_docs.py -k trained

# Reports in a real browser, which the system's package manager installs.
test-browser: $(VENV)/.tested
	tests/browser/install-chromium
	$(BIN)/python -m pytest tests/browser

# On a machine with a GPU.
test-gpu: $(VENV)/.tested
	$(BIN)/python -m pip install --quiet --editable ".[dev,gpu]"
	$(BIN)/python -m pytest tests/engines/gpu
	$(BIN)/python -m pytest tests/engines/test_against_brute_force.py tests/engines/test_metamorphic.py \
		tests/engines/test_enumerate.py tests/engines/cube tests/engines/tables tests/engines/partition --device gpu
	$(BIN)/labelcert selfcheck --problems 5000 --device gpu

# The lower bounds in pyproject.toml hold.
test-oldest:
	$(PYTHON) -m venv .venv-oldest
	.venv-oldest/bin/python -m pip install --quiet --editable ".[test]" --constraint tests/oldest-versions.txt
	.venv-oldest/bin/python -m pytest -n auto --dist loadfile

# Ten minutes for every reader of files.
fuzz: $(VENV)/.tested
	$(BIN)/python -m tests.faults.fuzzing --seconds 600

check: $(VENV)/.tested
	$(BIN)/ruff format --check src tests benchmarks docs/hooks.py
	$(BIN)/ruff check src tests benchmarks docs/hooks.py
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/mkdocs build --strict --quiet

docs: $(VENV)/.tested
	$(BIN)/mkdocs build --strict

# The pictures of docs/gallery.md, from the code on that page.
gallery: $(VENV)/.tested
	$(BIN)/python -m tests.test_docs

# Executes the notebooks and stores what they show. One of them needs PyTorch: `make test-torch` installs it.
notebooks: $(VENV)/.tested
	$(BIN)/python -m tests.helpers.notebooks

bench: $(VENV)/.tested
	$(BIN)/python -m benchmarks

selfcheck: $(VENV)/.installed
	$(BIN)/labelcert selfcheck --problems 5000

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(VENV)/bin/python pyproject.toml
	@echo "Installing labelcert into $(VENV), about a minute"
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

$(VENV)/.tested: $(VENV)/bin/python pyproject.toml
	@echo "Installing labelcert and the tools for its tests into $(VENV), some minutes"
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	touch $@ $(VENV)/.installed

clean:
	rm -rf $(VENV) build dist site .cache .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
	find . -name '*.nb[ic]' -delete
