# One image for runs, the server and the workers of a cluster; docs/image.md says how to use it.
#   docker build -t graphmill:local .                     the image
#   docker build -t graphmill-sample --target sample .   with a project of the sample corpus
ARG PYTHON=3.11

FROM python:${PYTHON}-slim AS build
WORKDIR /graphmill
RUN python -m venv /opt/graphmill
# The libraries come first: a change of graphmill's code does not install them again.
COPY requirements-image.lock ./
RUN /opt/graphmill/bin/pip install --no-cache-dir --require-hashes -r requirements-image.lock
COPY pyproject.toml README.md LICENSE settings.yaml ./
COPY pipeline pipeline
COPY workflows workflows
COPY prompts prompts
COPY docs docs
COPY data/input data/input
COPY data/questions.jsonl data/questions.jsonl
COPY examples/alerts examples/alerts
COPY examples/nightly examples/nightly
COPY examples/ontology examples/ontology
RUN /opt/graphmill/bin/pip install --no-cache-dir --no-deps .

FROM python:${PYTHON}-slim AS graphmill
COPY --from=build /opt/graphmill /opt/graphmill
# HOME is writable when the root file system is not: libraries keep small caches there.
ENV PATH=/opt/graphmill/bin:$PATH HOME=/tmp PYTHONUNBUFFERED=1
RUN useradd --uid 1000 --no-create-home graphmill && install -d -o 1000 -g 1000 /project
USER 1000:1000
WORKDIR /project
EXPOSE 8020
CMD ["graphmill", "--help"]

FROM graphmill AS sample
RUN graphmill init /project --sample && graphmill -C /project plan

# The last stage is what a build without --target makes.
FROM graphmill
