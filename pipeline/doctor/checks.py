"""All examinations, in an order in which failures explain those that follow."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, assert_never
from urllib.parse import unquote, urlsplit

from pydantic import BaseModel, SecretStr

from pipeline.doctor.chat_model import Consent, Measuring, examine_chat
from pipeline.doctor.cluster import examine_cluster
from pipeline.doctor.embedding_model import examine_embedding, examine_rerank, examine_vectors
from pipeline.doctor.finding import Finding, guarded
from pipeline.doctor.inputs import examine_inputs
from pipeline.doctor.keys import examine_keys
from pipeline.doctor.object_store import examine_object_store
from pipeline.doctor.project_folder import (
    examine_env_file,
    examine_input,
    examine_space,
    examine_workflow,
)
from pipeline.doctor.sign_in import examine_sign_in
from pipeline.doctor.stores import examine_cache, examine_neo4j, examine_owner, examine_postgres
from pipeline.doctor.views import examine_views
from pipeline.engine.workflow import Workflow
from pipeline.runs.services import Services
from pipeline.settings.schema import Settings

SHORTEST_SECRET = 4
"""Characters of the shortest secret that is masked. Masking shorter ones would reveal where they
occur."""


def examine(project: Services, long: bool = False, consent: Consent | None = None) -> list[Finding]:
    """Return findings on settings, disk space, snapshots, cluster, models, stores and cache.

    It raises nothing, and secrets of four or more characters are masked. It makes at most 30 calls
    to each chat model that has an address or a key, none of them cached. Calls that fail with a
    transient error are retried beyond these. The results are kept (models/measured.py).

    A prompt as long as a query's or a summary's costs more. ``consent`` is called before each such
    prompt; without it, ``long`` answers. ``long`` also repeats long prompts that were measured
    before, and searches for a limit that the server does not state.
    """
    secrets = _secrets(project.settings)
    measuring = Measuring(consent or (lambda call: long), long, project.measured)
    return [_without_secrets(finding, secrets) for finding in _findings(project, measuring)]


def _findings(project: Services, measuring: Measuring) -> Iterator[Finding]:
    root, settings = project.root, project.settings
    workflows: list[Workflow] = []
    names = {path.stem for path in (root / "workflows").glob("*.yaml")} | {settings.workflow}
    for name in sorted(names):
        yield from guarded(
            "settings", f"workflow {name}", partial(examine_workflow, project, name, workflows)
        )
    yield from guarded("settings", "input", lambda: examine_input(root, settings))
    yield from guarded("settings", "inputs", lambda: examine_inputs(project))
    yield from guarded("settings", ".env", lambda: examine_env_file(root))
    yield from guarded("settings", "serve.keys", lambda: examine_keys(root, settings))
    yield from guarded("settings", "serve.views", lambda: examine_views(project))
    oidc = settings.serve.users.oidc
    yield from guarded("settings", "serve.users.oidc", lambda: examine_sign_in(oidc))
    yield from guarded("space", "data", lambda: examine_space(root, settings))
    yield from guarded("snapshots", "object store", lambda: examine_object_store(project))
    yield from guarded("cluster", "scheduler", lambda: examine_cluster(project))
    for name in settings.models.chat:
        examine_model = partial(examine_chat, project, name, workflows, measuring)
        yield from guarded("chat", name, examine_model)
    for name in settings.models.embedding:
        yield from guarded("embedding", name, partial(examine_embedding, root, settings, name))
    for name in settings.models.rerank:
        yield from guarded("rerank", name, partial(examine_rerank, root, settings, name))
    yield from guarded("stores", "postgres", lambda: examine_postgres(root, settings))
    yield from guarded("stores", "owner", lambda: examine_owner(root, settings))
    yield from guarded("stores", "vectors", lambda: examine_vectors(root, settings))
    match settings.stores.graph:
        case "postgres":
            pass
        case "neo4j":
            yield from guarded("stores", "neo4j", lambda: examine_neo4j(settings))
        case _ as other:
            assert_never(other)
    yield from guarded("cache", "replies", lambda: examine_cache(root, settings))


def _secrets(settings: Settings) -> list[str]:
    """Return the secrets of settings, the longest first, because one may contain another."""
    models = settings.models
    endpoints = [*models.chat.values(), *models.embedding.values(), *models.rerank.values()]
    secrets: set[str] = set()
    for name in type(settings).model_fields:
        # The address of an input is no secret as a whole; its password is among those of URLs.
        if name != "inputs":
            secrets.update(_secret_values(getattr(settings, name)))
    urls = [settings.stores.postgres.url, settings.cache]
    urls += [source.url.get_secret_value() for source in settings.inputs]
    urls += [endpoint.base_url for endpoint in endpoints]
    for url in urls:
        secrets |= _secrets_of(url)
    long_enough = [secret for secret in secrets if len(secret) >= SHORTEST_SECRET]
    return sorted(long_enough, key=len, reverse=True)


def _secret_values(value: Any) -> Iterator[str]:
    """Yield the content of every field of settings whose type says that it is secret."""
    if isinstance(value, SecretStr):
        yield value.get_secret_value()
    elif isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from _secret_values(getattr(value, name))
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _secret_values(each)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for each in value:
            yield from _secret_values(each)


def _secrets_of(url: str) -> set[str]:
    """Return the secrets in a URL: the password as written and as decoded, and the query."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return {url}
    password = parts.password or ""
    return {password, unquote(password), parts.query}


def _without_secrets(finding: Finding, secrets: list[str]) -> Finding:
    fact, action = finding.fact, finding.action
    for secret in secrets:
        fact, action = fact.replace(secret, "***"), action.replace(secret, "***")
    return replace(finding, fact=fact, action=action)
