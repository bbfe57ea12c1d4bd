# simdx: every target does its own set-up. `make demo` and `make test` are the two to know.

PYTHON ?= python3
CONSTRAINTS := requirements/constraints.txt
VENV := .venv
PIP_FLAGS := --quiet --disable-pip-version-check -c $(CONSTRAINTS)

export PYTHONHASHSEED ?= 0
# Where bytecode may not be kept, every process of the tests compiles the package again.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: setup demo test test-slow check format bench docs clean help fuzz validate paper paper-smoke lock install-locked sbom audit

help:
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/  —/'

# The core with the embedded model is all the demo needs; `setup` adds every extra to the same environment.
$(VENV)/.core: pyproject.toml $(CONSTRAINTS)
	test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV); a first time takes a minute or some"
	$(VENV)/bin/python -m pip install $(PIP_FLAGS) -e '.[local,report]'
	@touch $@

$(VENV)/.full: $(VENV)/.core
	@echo "installing every extra into $(VENV), torch among them; a first time takes some minutes"
	$(VENV)/bin/python -m pip install $(PIP_FLAGS) -e '.[dev]'
	@touch $@

setup: $(VENV)/.full ## a .venv with every extra, and the weights the tests use
	@$(VENV)/bin/simdx models pull smollm2 >/dev/null
	@$(VENV)/bin/simdx models pull minilm >/dev/null

demo: $(VENV)/.core ## core install with the embedded model, then the main job: a case in, a posterior out
	@$(VENV)/bin/simdx models pull smollm2 >/dev/null
	@$(VENV)/bin/simdx models verify
	@mkdir -p out
	@$(VENV)/bin/python -m simdx.demo --html out/demo.html

# Three processes on two cores: one of them always waits for something. A second BLAS thread in each would only be
# in the way.
test: setup ## the fast tests
	OPENBLAS_NUM_THREADS=1 $(VENV)/bin/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder -m "not slow"

test-slow: setup ## real models end to end, faults, kills, long statistics
	OPENBLAS_NUM_THREADS=1 $(VENV)/bin/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m slow --timeout 900

check: $(VENV)/.full ## lint, format, types
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

format: $(VENV)/.full ## rewrite what ruff can mend
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

bench: setup ## speed, side by side with pyABC and the bare matrix product
	mkdir -p out
	OMP_NUM_THREADS=2 OPENBLAS_NUM_THREADS=2 $(VENV)/bin/simdx bench engines --json | tee out/bench-engines.json
	$(VENV)/bin/simdx bench bank --json | tee out/bench-bank.json

docs: $(VENV)/.full ## the documentation site in out/site; a dead link or a stale picture of the code fails it
	$(VENV)/bin/python docs/tools/house.py --check
	$(VENV)/bin/python docs/tools/figures.py --check
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/python -m mkdocs build --strict --quiet
	$(VENV)/bin/python docs/check_links.py

FUZZ_SECONDS ?= 80
fuzz: $(VENV)/.full ## coverage-guided fuzzing, FUZZ_SECONDS a target on average; fails on a traceback or a hang
	$(VENV)/bin/python -m fuzz.run --seconds $(FUZZ_SECONDS) --out out/fuzz

validate: setup ## re-run calibration, agreement and quality; fails when a figure leaves its interval
	$(VENV)/bin/python -m benchmarks.validate --out out/validate.json

paper: setup ## every table and figure of the paper measured into results/paper, its claims in docs/results.md
	$(VENV)/bin/python -m paper run --out results/paper
	$(VENV)/bin/python -m paper report results/paper --markdown docs/results.md

OUT ?= out/paper-smoke
paper-smoke: setup ## the same on a few cases into OUT=DIR, with DIR/report.html; minutes
	$(VENV)/bin/python -m paper run --scale smoke --out $(OUT)
	$(VENV)/bin/python -m paper report $(OUT)

lock: $(VENV)/.full ## write requirements/lock*.txt: every pin with its hashes
	$(VENV)/bin/python requirements/lock.py

# Every package at its pin and by its hash, and simdx built with the locked build tools: nothing else is fetched.
# For a GPU: make install-locked LOCKED_FLAGS='-r requirements/lock-cuda.txt'
LOCKED ?= .venv-locked
LOCKED_FLAGS ?= --extra-index-url https://download.pytorch.org/whl/cpu
install-locked: ## a fresh environment LOCKED=FOLDER from requirements/lock.txt alone, checked by one answer
	$(PYTHON) -m venv $(LOCKED)
	$(LOCKED)/bin/python -m pip install --quiet --require-hashes -r requirements/lock.txt $(LOCKED_FLAGS)
	$(LOCKED)/bin/python -m pip install --quiet --no-deps --no-build-isolation --no-index .
	$(LOCKED)/bin/python -m pip check
	$(LOCKED)/bin/simdx classify "A soft, bluish, painless swelling of the lower lip." --panel oral-lesions

$(VENV)/.supply: $(VENV)/.core
	$(VENV)/bin/python -m pip install $(PIP_FLAGS) -e '.[supply]'
	@touch $@

sbom: $(VENV)/.full $(VENV)/.supply ## a CycloneDX bill of materials of the environment, in out/sbom.json
	@mkdir -p out
	$(VENV)/bin/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible -o out/sbom.json $(VENV)/bin/python

audit: $(VENV)/.supply ## known vulnerabilities of the locked packages; says SKIPPED where nobody answered
	$(VENV)/bin/python requirements/audit.py

clean:
	rm -rf $(VENV) out build dist .pytest_cache .mypy_cache .ruff_cache
