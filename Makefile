# One command per chore. Everything lives in .venv; uv is used where it is there, else venv and pip.

VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= python3
UV := $(shell command -v uv 2>/dev/null)
GRAPHMILL := $(BIN)/graphmill
# Tests start hundreds of processes. Without kept bytecode each of them compiles the package again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help install dev demo ui demo-neo4j demo-dask neo4j test test-full test-real soak coverage analytics litellm frameworks mypy bench bench-load baseline lint format style types layers licences docs pictures screenshots vendor check lock image wheel release clean

help:  ## what there is
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

install: $(VENV)/.installed  ## graphmill in .venv, from the lock
dev: $(VENV)/.dev  ## and what tests and checks need

$(VENV)/.installed: requirements.lock pyproject.toml
ifdef UV
	test -x $(BIN)/python || uv venv --quiet --python $(PYTHON) $(VENV)
	VIRTUAL_ENV=$(VENV) uv pip install --quiet --require-hashes -r requirements.lock
	VIRTUAL_ENV=$(VENV) uv pip install --quiet --no-deps --editable .
else
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
endif
	touch $@

$(VENV)/.dev: $(VENV)/.installed requirements-dev.lock
ifdef UV
	VIRTUAL_ENV=$(VENV) uv pip install --quiet --require-hashes -r requirements-dev.lock
else
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
endif
	touch $@

demo: install  ## the main job on data/input, and three questions: no server, no key
	$(GRAPHMILL) run fast
	$(GRAPHMILL) query "Who designed the Skarrow Light?" --mode naive --chunk-top-k 3
	$(GRAPHMILL) query "Which river did the Asken Valley Railway follow?" --mode local --top-k 10 --chunk-top-k 3
	$(GRAPHMILL) query "Where did Idra Vasterling study, and who taught there?" --mode hybrid --top-k 10 --chunk-top-k 3
	$(BIN)/python examples/ontology/effect.py .

ui: dev  ## the page over data/input, in a browser: no key, no chat model
	$(GRAPHMILL) run fast
	$(GRAPHMILL) ui

demo-neo4j: dev  ## the demo with the graph in a real Neo4j
	$(BIN)/python tests/servers/neo4j_server.py --run '$(MAKE) --no-print-directory demo-on-neo4j'

demo-on-neo4j:
	$(GRAPHMILL) run fast --set stores.graph=neo4j --set workspace=demo-neo4j
	$(GRAPHMILL) query "Where did Idra Vasterling study, and who taught there?" --mode hybrid --top-k 10 --chunk-top-k 3 \
		--set stores.graph=neo4j --set workspace=demo-neo4j

demo-dask: dev  ## the demo on a Dask cluster of this machine: two workers, snapshots in S3, the cache in PostgreSQL
	$(BIN)/python -m tests.servers.s3_server --run '$(BIN)/python tests/servers/dask_demo.py'

neo4j: dev  ## a local Neo4j to try things on, without Docker
	$(BIN)/python tests/servers/neo4j_server.py

# One more than the two cores for which the tests are made: many tests wait for a server.
TEST_PROCESSES ?= 3
test: dev  ## all tests
	$(BIN)/python -m pytest -n $(TEST_PROCESSES) --dist worksteal

test-full: dev  ## all tests, the heavy ones whole: about an hour
	GRAPHMILL_FULL=1 $(BIN)/python -m pytest

test-real: dev  ## the tests with a real model of 135M parameters and a real LiteLLM proxy (about 5 minutes)
	.ci/real
	GRAPHMILL_REQUIRE_REAL_MODEL=1 $(BIN)/python -m pytest tests/real

soak: dev  ## half an hour of runs, kills and an endpoint with every fault
	$(BIN)/python -m tests.whole.endpoint_soak --minutes 30 --documents 500 --seed 7

coverage: dev  ## all tests, and which lines and branches they reach
	$(BIN)/python -m pytest -n 2 --dist worksteal --cov --cov-report=term:skip-covered --cov-report=html

analytics:  ## node2vec, UMAP and graspologic's Leiden beside ours, in environments of their own (about 2 minutes)
	.ci/analytics

litellm:  ## the extra "litellm", in an environment of its own (about 3 minutes)
	.ci/litellm

frameworks:  ## the extras "langchain" and "llamaindex", in an environment of their own (about 4 minutes)
	.ci/frameworks

mypy:  ## mypy --strict over the examples, against the wheel in an environment of its own (about 3 minutes)
	.ci/mypy

bench: dev  ## what a build costs, how it waits for a slow endpoint, and the nights after (about 15 minutes)
	$(BIN)/python benchmarks/build.py --units 300 1900
	$(BIN)/python benchmarks/latency.py
	$(BIN)/python benchmarks/nightly.py

bench-load: dev  ## loads into Neo4j and PostgreSQL, beside the plainest code and beside LightRAG
	$(BIN)/python benchmarks/load.py

baseline: dev  ## the figures of retrieval that tests compare with, anew
	$(BIN)/python -m tests.evaluation.sample

lint: dev  ## ruff
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: dev  ## ruff, mending
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

style: dev  ## docstrings, density and names of the code in pipeline/
	$(BIN)/python .ci/style.py

types: dev  ## pyright
	$(BIN)/pyright

layers: dev  ## the direction of imports
	$(BIN)/lint-imports

licences: dev  ## those of the packages that graphmill needs, and the notices of them
	$(BIN)/python .ci/licences.py

docs: dev  ## the documentation as a site, into build/site; its links and the lengths of its sentences are checked
	$(BIN)/python .ci/prose.py
	$(BIN)/python .ci/site.py

pictures: dev  ## the pictures of the documentation, from the sample corpus (about 20 seconds)
	$(BIN)/python .ci/pictures.py

screenshots: dev  ## every view of the page, from the sample corpus, into build/screenshots; four into docs/pictures (needs chromium)
	$(BIN)/python -m tests.serve.ui.screenshots

vendor:  ## the libraries of the pages in a browser, from npm, as vendor/index.json pins them (needs npm)
	$(PYTHON) .ci/vendor.py

check: lint types layers licences docs test  ## everything that CI runs

# The extras of the image: servers, sources and clusters, but no library that brings a model.
IMAGE_EXTRAS := serve mcp oidc objects azure docs ontology dask chat
lock:  ## the lock files, from pyproject.toml (needs uv)
	uv pip compile --quiet --universal --no-strip-extras --generate-hashes --no-emit-index-url --no-annotate --no-header \
		--python-version 3.11 pyproject.toml -o requirements.lock
	uv pip compile --quiet --universal --no-strip-extras --generate-hashes --no-emit-index-url --no-annotate --no-header \
		--python-version 3.11 --group dev -c requirements.lock -o requirements-dev.lock
	uv pip compile --quiet --universal --no-strip-extras --generate-hashes --no-emit-index-url --no-annotate --no-header \
		--python-version 3.11 $(addprefix --extra ,$(IMAGE_EXTRAS)) -c requirements-dev.lock pyproject.toml -o requirements-image.lock

image:  ## the image graphmill:local, of this checkout (needs Docker)
	docker build -t graphmill:local .

wheel: dev  ## the wheel, into dist/
	$(BIN)/python -m build --wheel

release: dev  ## all files of a release, into dist/: KEY=ID signs them, TRIAL=1 only tries (about 2 minutes)
	TRIAL="$(TRIAL)" KEY="$(KEY)" BIN="$(abspath $(BIN))" .ci/release

clean:  ## what runs have made (documents, settings and prompts stay)
	rm -rf dist data/snapshots data/output data/runs data/postgres data/cache.sqlite*
