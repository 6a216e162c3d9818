"""The composition root: the one place that names concrete models and stores.

Each is imported where it is created, so that a process only loads the libraries that it uses.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, assert_never

from pipeline.errors import SettingsError
from pipeline.runs.owner import owner_of
from pipeline.settings.providers import revealed
from pipeline.settings.schema import EMBEDDED, Settings
from pipeline.stores.connection import PATIENCE, read_together, reconnecting
from pipeline.stores.loaded_workspaces import Workspace, neo4j_address, postgres_address

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pipeline.models.base import EmbeddingModel, Reranker
    from pipeline.models.cache.replies import ReplyCache
    from pipeline.models.endpoint.batch import BatchChat
    from pipeline.models.endpoint.chat import OpenAIChat
    from pipeline.models.endpoint.connection import Connection
    from pipeline.settings.providers import ConnectionSettings
    from pipeline.settings.schema import ChatSettings, EndpointSettings
    from pipeline.stores.base import Live, Store
    from pipeline.stores.connection import Result, Start, Work
    from pipeline.stores.neo4j.source import Neo4jSource
    from pipeline.stores.neo4j.store import Neo4jStore
    from pipeline.stores.postgres.hnsw import Hnsw
    from pipeline.stores.postgres.store import PostgresStore
    from pipeline.stores.reads import GraphStore, VectorStore


Model = TypeVar("Model")
EMBEDDED_FOLDER = "data/postgres"
DEFAULT_RERANKER = "default"


@dataclass(frozen=True)
class Stores:
    """The stores of a project.

    ``vectors`` and ``graph`` are read by queries. ``start`` starts the embedded PostgreSQL again,
    which another process may have stopped meanwhile.
    """

    vectors: VectorStore
    graph: GraphStore
    open_all: Callable[[], tuple[Store, ...]]
    start: Start | None = None

    @cached_property
    def all(self) -> tuple[Store, ...]:
        """The stores that a load writes, in order. They are opened on first use, because queries
        need none."""
        return self.open_all()

    def read(self, work: Work[Result]) -> tuple[Result, tuple[str, ...]]:
        """Read from both stores at one moment. See ``read_together``."""
        return read_together(self.vectors, self.graph, work, self.start)

    def live(self) -> Live | None:
        """Return what the workspace of the vectors shows; wait while the database restarts."""
        return reconnecting(self.vectors.live, PATIENCE, self.start)

    def close(self) -> None:
        opened = (self.vectors, self.graph, *self.__dict__.get("all", ()))
        # One object may serve in several places; it is closed once.
        distinct = {id(store): store for store in opened}
        for store in distinct.values():
            store.close()


def open_cache(settings: Settings, root: Path) -> ReplyCache:
    """Open the cache of model replies.

    A relative SQLite path is below the project; a file in there is used by this project alone.
    """
    from pipeline.models.cache.replies import ReplyCache

    prefix = "sqlite:///"
    owner = partial(owner_of, root)
    if not settings.cache.startswith(prefix):
        return ReplyCache(settings.cache, owner)
    path = root / settings.cache.removeprefix(prefix)
    is_private = settings.own_cache(root) is not None
    return ReplyCache(f"{prefix}{path}", owner, private=is_private)


def chat_model(
    settings: Settings,
    name: str,
    cache: ReplyCache,
    urgent: bool = False,
    root: Path = Path(),
    waits: bool = False,
) -> OpenAIChat:
    """Return a chat model of settings by its name.

    - ``urgent`` calls go before those of other models, as calls of a query go before those of a
      run.
    - ``root`` is the project's folder, in which certificates and Python modules are found.
    - ``waits`` is true to wait for a server that is starting, as runs do.
    """
    from pipeline.models.endpoint.limits import Rate

    chat = _find_model(settings.models.chat, name, "models.chat")
    price = chat.known_price
    return _spoken_to(chat)(
        **reached(chat, root, tuple(_options_set(chat))),
        cache=cache,
        concurrency=chat.concurrency,
        timeout=chat.timeout,
        max_retries=chat.max_retries,
        rate=Rate(chat.requests_per_minute, chat.tokens_per_minute),
        options=chat.options,
        input_price=price.input if price else None,
        output_price=price.output if price else 0.0,
        where=f"models.chat.{name}",
        urgent=urgent,
        wait_for_model=chat.wait_for_model if waits else 0.0,
    )


def _spoken_to(chat: ChatSettings) -> Callable[..., OpenAIChat]:
    """Return the adapter for the protocol of the model's provider."""
    if chat.kind == "ollama":
        from pipeline.models.endpoint.ollama import NUM_CTX, OllamaChat

        return partial(OllamaChat, num_ctx=chat.num_ctx or NUM_CTX, keep_alive=chat.keep_alive)
    from pipeline.models.endpoint.chat import OpenAIChat

    return OpenAIChat


def batched_chat(settings: Settings, name: str, chat: OpenAIChat) -> BatchChat:
    """Return the model as it is asked through the endpoint's Batch API."""
    from pipeline.models.endpoint.batch import BatchChat, BatchOptions

    batch = settings.models.chat[name].batch
    return BatchChat(
        chat,
        BatchOptions(
            poll_seconds=batch.poll_seconds,
            wait_seconds=60 * batch.wait_minutes,
            failed=batch.failed,
            least=batch.least,
            max_requests=batch.max_requests,
            max_bytes=1_000_000 * batch.max_mb,
            discount=batch.discount,
        ),
    )


def embedding_model(
    settings: Settings,
    name: str,
    cache: Callable[[], ReplyCache],
    urgent: bool = False,
    root: Path = Path(),
    waits: bool = False,
) -> EmbeddingModel:
    """Return an embedding model of settings by its name.

    ``cache`` opens the cache, if the model keeps its vectors there. For ``urgent``, ``root`` and
    ``waits`` see ``chat_model``; a model on this machine ignores them.
    """
    embedding = _find_model(settings.models.embedding, name, "models.embedding")
    if embedding.kind == "builtin":
        from pipeline.models.here.builtin import BuiltinEmbedding

        return BuiltinEmbedding()
    if embedding.kind == "local":
        from pipeline.models.here.minilm import MINILM, MiniLMEmbedding

        where = f"models.embedding.{name}"
        if embedding.model in ("", MINILM):
            return MiniLMEmbedding(cache(), where)
        from pipeline.models.here.multilingual import MULTILINGUAL, MultilingualEmbedding

        if embedding.model == MULTILINGUAL:
            return MultilingualEmbedding(cache(), where)
        from pipeline.models.here.transformers import SentenceTransformerEmbedding

        return SentenceTransformerEmbedding(embedding.model, cache(), where)
    from pipeline.models.endpoint.embedding import OpenAIEmbedding
    from pipeline.models.endpoint.limits import Rate

    return OpenAIEmbedding(
        **reached(embedding, root),
        cache=cache(),
        dimensions=embedding.dimensions,
        batch_size=embedding.batch_size,
        concurrency=embedding.concurrency,
        timeout=embedding.timeout,
        max_retries=embedding.max_retries,
        rate=Rate(embedding.requests_per_minute, embedding.tokens_per_minute),
        input_price=embedding.price.input if embedding.price else None,
        where=f"models.embedding.{name}",
        urgent=urgent,
        wait_for_model=embedding.wait_for_model if waits else 0.0,
    )


def reached(model: EndpointSettings, root: Path, wanted: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the arguments of a RemoteModel that say who provides it and how it is reached.

    ``wanted``: the options that are set, which a Python function must take.
    """
    arguments: dict[str, Any] = {
        "model": model.named_model,
        "api_key": model.api_key.get_secret_value(),
    }
    if model.kind == "python":
        # The api_key of a function is not sent: it is only masked in the function's messages.
        from pipeline.models.endpoint.function import FunctionEndpoint

        name = model.function_name
        function = model.function if callable(model.function) else name
        arguments["connect"] = partial(
            FunctionEndpoint, function=function, name=name, root=root, wanted=wanted
        )
        arguments["origin"] = {"provider": "python", "function": name, "version": model.version}
        return arguments
    arguments["base_url"] = model.base_url
    connected = connection(model, root)
    if model.kind == "azure":
        from pipeline.models.endpoint.azure import AzureEndpoint

        arguments["connect"] = partial(
            AzureEndpoint,
            connection=connected,
            deployment=model.deployment,
            api_version=model.api_version,
            entra_id=model.entra_id,
        )
    elif model.kind == "ollama":
        from pipeline.models.endpoint.ollama import OllamaEndpoint, native_address

        arguments["base_url"] = native_address(model.base_url)
        arguments["connect"] = partial(OllamaEndpoint, connection=connected)
        # Under /v1 the same model is asked with other defaults, and with prompts that may be cut.
        arguments["origin"] = {"provider": "ollama"}
    elif model.kind == "litellm":
        from pipeline.models.endpoint.litellm import LitellmEndpoint

        arguments["connect"] = partial(
            LitellmEndpoint, connection=connected, arguments=revealed(model.arguments)
        )
    else:
        from pipeline.models.endpoint.client import Endpoint

        arguments["connect"] = partial(Endpoint, connection=connected)
    return arguments


def _options_set(chat: ChatSettings) -> Iterator[str]:
    """Yield the names of the options that settings.yaml itself sets."""
    for name, value in chat.options.items():
        if name == "extra_body":
            yield from value
        elif name in chat.model_fields_set:
            yield name


def connection(settings: ConnectionSettings, root: Path) -> Connection:
    """Return headers, query and certificates; relative paths of these are below ``root``."""
    from pipeline.models.endpoint.connection import Connection

    files = (settings.ca_bundle, settings.client_cert, settings.client_key)
    ca_bundle, client_cert, client_key = (
        str(root / Path(file).expanduser()) if file else "" for file in files
    )
    return Connection(
        revealed(settings.headers), revealed(settings.query), ca_bundle, client_cert, client_key
    )


def reranker(
    settings: Settings, name: str = DEFAULT_RERANKER, root: Path = Path()
) -> Reranker | None:
    """Return a reranker of settings, or None if settings name no reranker at all.

    For ``root`` see ``chat_model``.
    """
    if not settings.models.rerank:
        return None
    rerank = _find_model(settings.models.rerank, name, "models.rerank")
    where = f"models.rerank.{name}"
    if rerank.provider == "local":
        from pipeline.models.here.minilm import MINILM

        if rerank.model in ("", MINILM):
            from pipeline.models.here.minilm_rerank import MOST_CHARACTERS, MiniLMReranker

            return MiniLMReranker(min(rerank.max_characters, MOST_CHARACTERS), where)
        from pipeline.models.here.transformers import CrossEncoderReranker

        return CrossEncoderReranker(rerank.model, rerank.batch_size, rerank.max_characters, where)
    from pipeline.models.endpoint.client import Endpoint
    from pipeline.models.endpoint.rerank import EndpointReranker

    return EndpointReranker(
        model=rerank.model,
        base_url=rerank.base_url,
        api_key=rerank.api_key.get_secret_value(),
        batch_size=rerank.batch_size,
        max_characters=rerank.max_characters,
        concurrency=rerank.concurrency,
        timeout=rerank.timeout,
        max_retries=rerank.max_retries,
        input_price=rerank.price.input if rerank.price else None,
        search_price=rerank.price.search if rerank.price else 0.0,
        where=where,
        connect=partial(Endpoint, connection=connection(rerank, root)),
    )


def open_stores(settings: Settings, root: Path) -> Stores:
    """Open the stores of the project, and start the embedded PostgreSQL if settings ask for it."""
    from pipeline.stores.postgres.reads import PostgresReads

    url = postgres_url(settings, root)
    vectors = PostgresReads(url, settings.workspace, hnsw=hnsw(settings))
    is_embedded = settings.stores.postgres.url == EMBEDDED
    start = partial(postgres_url, settings, root) if is_embedded else None
    graph = graph_store(settings)
    if graph is None:
        from pipeline.stores.postgres.graph import PostgresGraph

        return Stores(
            vectors, PostgresGraph(vectors), lambda: (_postgres_store(settings, url),), start
        )
    return Stores(vectors, graph, lambda: (_postgres_store(settings, url), graph), start)


def graph_store(settings: Settings) -> Neo4jStore | None:
    """Return the store that has the graph; None if PostgreSQL has it, beside the vectors."""
    match settings.stores.graph:
        case "postgres":
            return None
        case "neo4j":
            return neo4j_store(settings)
        case _ as other:
            assert_never(other)


def loads_into(settings: Settings) -> list[Workspace]:
    """Return the workspaces that a load fills, without user and password."""
    url = settings.stores.postgres.url
    kind, address = ("embedded", "") if url == EMBEDDED else ("postgres", postgres_address(url))
    found = [Workspace(kind, address, settings.workspace)]
    match settings.stores.graph:
        case "postgres":
            pass
        case "neo4j":
            neo4j = settings.stores.neo4j
            address = neo4j_address(neo4j.uri, neo4j.database)
            found.append(Workspace("neo4j", address, settings.workspace))
        case _ as other:
            assert_never(other)
    return found


def postgres_store(settings: Settings, root: Path) -> PostgresStore:
    return _postgres_store(settings, postgres_url(settings, root))


def postgres_url(settings: Settings, root: Path) -> str:
    """Return the URL of PostgreSQL, after starting the embedded one if settings ask for it."""
    if settings.stores.postgres.url != EMBEDDED:
        return settings.stores.postgres.url
    from pipeline.stores.postgres.embedded import start_embedded

    return start_embedded(root / EMBEDDED_FOLDER)


def hnsw(settings: Settings) -> Hnsw:
    from pipeline.stores.postgres.hnsw import Hnsw

    postgres = settings.stores.postgres
    return Hnsw(**postgres.hnsw.model_dump(), exact_below=postgres.exact_below)


def _postgres_store(settings: Settings, url: str) -> PostgresStore:
    from pipeline.stores.postgres.store import PostgresStore

    return PostgresStore(
        url,
        settings.workspace,
        hnsw=hnsw(settings),
        with_graph=settings.stores.graph == "postgres",
        vacuums=settings.stores.postgres.url == EMBEDDED,
    )


def neo4j_store(settings: Settings) -> Neo4jStore:
    from pipeline.stores.neo4j.store import Neo4jStore

    neo4j = settings.stores.neo4j
    return Neo4jStore(
        neo4j.uri,
        neo4j.user,
        neo4j.password.get_secret_value(),
        neo4j.database,
        settings.workspace,
        max_source_ids=neo4j.max_source_ids,
    )


def neo4j_source(settings: Settings, url: str) -> Neo4jSource:
    """Return a Neo4j from which ``import cypher`` reads."""
    from pipeline.stores.neo4j.source import Neo4jSource

    cypher = settings.cypher
    return Neo4jSource(url, cypher.user, cypher.password.get_secret_value(), cypher.database)


def _find_model(models: dict[str, Model], name: str, where: str) -> Model:
    if name not in models:
        raise SettingsError(f"{where}: no model '{name}'; have: {', '.join(sorted(models))}")
    return models[name]
