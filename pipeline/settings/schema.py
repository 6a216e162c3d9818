"""The schema of settings.yaml: every key is optional, an unknown key is an error."""

import re
from collections.abc import Mapping
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    NonNegativeFloat,
    PositiveInt,
    SecretStr,
    field_validator,
    model_validator,
)

from pipeline.settings.addresses import (
    fault_of_neo4j,
    fault_of_object_store,
    fault_of_postgres,
    is_object_store,
)
from pipeline.settings.inputs import Input, InputColumns, TitleFrom, WebPages, check_names
from pipeline.settings.names import KeyName, OwnerName, UserHeader, ViewName, WorkspaceName
from pipeline.settings.providers import ConnectionSettings, ProviderSettings, Text
from pipeline.settings.query_fields import SEARCH_MODES, Mode
from pipeline.settings.query_options import QuerySettings

EMBEDDED = "embedded"
MOST_PROCESSES = 256
LONGEST_WORKSPACE = 63
"""The most characters of a workspace's name, which its pattern sets as well."""


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class InputStep(Section):
    """A verb that is applied to the documents after they are loaded."""

    verb: str
    args: dict[str, Any] = {}


DateFrom = Literal["front_matter", "metadata", "properties", "mail", "file_name", "file_time"]
"""An origin of a document's date, as in the column ``date_from`` of documents."""


class PicturesSettings(Section):
    """``model`` names the entry of models.chat that describes pictures; "" for none."""

    model: str = ""


class InputSettings(Section):
    path: str = "data/input"
    owned: str = Field(default="posted", pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,60}$")
    file_pattern: str = "**/*"
    id_column: str = "id"
    title_column: str = "title"
    text_column: str = "text"
    columns: dict[str, InputColumns] = {}
    title_order: tuple[TitleFrom, ...] = ("given", "heading", "file_name", "first_line")
    dates_from: tuple[DateFrom, ...] = (
        "front_matter", "metadata", "properties", "mail", "file_name",
    )  # fmt: skip
    date_fields: tuple[str, ...] = (
        "date", "updated", "modified", "lastmod", "published", "created",
    )  # fmt: skip
    day_first: bool | None = None
    encoding: str = ""
    encodings: tuple[str, ...] = ("gb18030", "shift_jis", "cp1252")
    max_file_mb: PositiveInt = 100
    converter: str | tuple[str, ...] | dict[str, str | tuple[str, ...]] = ""
    web_pages: WebPages = "whole"
    convert_seconds: float = Field(default=900, gt=0)
    convert_mb: PositiveInt = 768
    pictures: PicturesSettings = PicturesSettings()
    steps: tuple[InputStep, ...] = ()


class GraphragSettings(Section):
    path: str = "data/graphrag"
    files: str = "index"


class LightragSettings(Section):
    path: str = "data/lightrag"
    files: str = "index"


class Price(Section):
    """The price of a million tokens, in any currency."""

    input: NonNegativeFloat = 0.0
    output: NonNegativeFloat = 0.0


SHIPPED_MODEL = "gpt-4o-mini"
SHIPPED_PRICE = Price(input=0.15, output=0.60)
"""The price of the shipped model at OpenAI, in dollars."""
OPENAI_HOSTS = ("", "https://api.openai.com/v1")


class EndpointSettings(Section, ProviderSettings):
    model: str = ""
    base_url: str = Field(default="", repr=False)
    api_key: SecretStr = SecretStr("")
    concurrency: PositiveInt = 16
    timeout: float = Field(default=120, gt=0)
    max_retries: int = Field(default=5, ge=0)
    wait_for_model: float = Field(default=600, ge=0)
    requests_per_minute: float | None = Field(default=None, gt=0)
    tokens_per_minute: float | None = Field(default=None, gt=0)
    price: Price | None = None

    @property
    def configured(self) -> bool:
        """Return whether a provider, an address or a key is set, so that the model can be asked."""
        return bool(self.needs_no_address or self.base_url or self.api_key.get_secret_value())

    @property
    def named_model(self) -> str:
        """The model's name; if none is set for a Python function, the name of the function."""
        unnamed = self.kind == "python" and not ("model" in self.model_fields_set and self.model)
        return self.function_name if unnamed else self.model


class BatchSettings(Section):
    """Requests to a batch API of a provider.

    ``failed`` says whether rows that failed in a batch are requested directly or rejected.
    """

    poll_seconds: float = Field(default=30, gt=0)
    wait_minutes: float = Field(default=60, ge=0)
    failed: Literal["direct", "reject"] = "direct"
    least: PositiveInt = 10
    max_requests: PositiveInt = 50_000
    max_mb: PositiveInt = 190
    discount: float = Field(default=0.5, ge=0, le=1)


class ChatSettings(EndpointSettings):
    provider: Literal["openai", "ollama", "azure", "litellm", "python"] = "openai"
    model: str = SHIPPED_MODEL
    num_ctx: PositiveInt | None = None
    keep_alive: Text = ""
    batch: BatchSettings = BatchSettings()
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    max_tokens: PositiveInt | None = None
    reasoning_effort: str | None = None
    extra_body: dict[str, Any] | None = None

    @model_validator(mode="after")
    def _has_options_that_ollama_takes(self) -> Self:
        options = (self.extra_body or {}).get("options")
        if self.kind != "ollama" or options is None:
            return self
        if not isinstance(options, dict):
            raise ValueError("extra_body.options: not a mapping; write options: {NAME: VALUE}")
        window = options.get("num_ctx")
        is_number = isinstance(window, int) and not isinstance(window, bool) and window > 0
        if window is not None and not is_number:
            raise ValueError(
                "extra_body.options.num_ctx: no whole number above 0; write num_ctx: 8192"
            )
        return self

    @property
    def kind(self) -> str:
        return self.provider

    @property
    def known_price(self) -> Price | None:
        """The price in the settings; else that of the shipped model, if OpenAI itself answers."""
        at_openai = self.provider == "openai" and self.base_url.rstrip("/") in OPENAI_HOSTS
        shipped = SHIPPED_PRICE if at_openai and self.model == SHIPPED_MODEL else None
        return self.price or shipped

    @property
    def has_price_of_another_model(self) -> bool:
        """Return whether the price is that of the shipped model, but the model is another.

        Earlier versions wrote that price into settings.yaml.
        """
        return self.price == SHIPPED_PRICE and SHIPPED_MODEL not in self.model

    @property
    def options(self) -> dict[str, Any]:
        """The options that are set; a request sends them beside the messages."""
        names = ("temperature", "top_p", "seed", "max_tokens", "reasoning_effort", "extra_body")
        values = {name: getattr(self, name) for name in names}
        return {name: value for name, value in values.items() if value is not None}


class EmbeddingSettings(EndpointSettings):
    """An embedding model.

    Without ``provider`` it is the model of an endpoint if the settings name a model or an address,
    else the builtin one.
    """

    provider: Literal["builtin", "openai", "local", "azure", "litellm", "python"] | None = None
    model: str = ""
    dimensions: PositiveInt | None = None
    batch_size: PositiveInt = 64

    @property
    def kind(self) -> str:
        return self.provider or ("openai" if self.base_url or self.model else "builtin")


class RerankPrice(Section):
    """The price of a reranker: ``input`` for a million tokens, or ``search`` for a thousand
    searches. An endpoint charges the one or the other."""

    input: NonNegativeFloat = 0.0
    search: NonNegativeFloat = 0.0


class RerankSettings(Section, ConnectionSettings):
    """A reranker: an endpoint with the protocol of Jina and Cohere, or a model on this machine
    (``provider: local``): MiniLM or the folder of a cross-encoder.

    ``order``: whether its order replaces that of the search, or both are fused. MiniLM's order is
    fused unless the settings say otherwise, because alone it loses recall.
    """

    provider: Literal["endpoint", "local"] = "endpoint"
    order: Literal["alone", "fused"] | None = None
    base_url: str = Field(default="", repr=False)
    api_key: SecretStr = SecretStr("")
    model: str = ""
    batch_size: PositiveInt = 100
    max_characters: PositiveInt = 8000
    concurrency: PositiveInt = 4
    timeout: float = Field(default=30, gt=0)
    max_retries: int = Field(default=2, ge=0)
    price: RerankPrice | None = None

    @property
    def fuses_ranks(self) -> bool:
        is_minilm = self.provider == "local" and self.model in ("", "minilm")
        return is_minilm if self.order is None else self.order == "fused"


class ModelsSettings(Section):
    chat: dict[str, ChatSettings] = {"default": ChatSettings()}
    embedding: dict[str, EmbeddingSettings] = {"default": EmbeddingSettings()}
    rerank: dict[str, RerankSettings] = {}


class HnswSettings(Section):
    """Parameters of pgvector's HNSW index.

    ``m`` and ``ef_construction`` decide how it is built, ``ef_search`` is the least breadth of a
    search. ``build_mb`` is the memory for building it.
    """

    m: int = Field(default=16, ge=2, le=100)
    ef_construction: int = Field(default=64, ge=4, le=1000)
    ef_search: int = Field(default=400, ge=1, le=1000)
    build_mb: PositiveInt = 1024


class PostgresSettings(Section):
    url: str = Field(default=EMBEDDED, repr=False)
    exact_below: PositiveInt = 5000
    hnsw: HnswSettings = HnswSettings()

    @field_validator("url")
    @classmethod
    def _is_of_postgres(cls, url: str) -> str:
        if url != EMBEDDED and (fault := fault_of_postgres(url)):
            raise ValueError(fault)
        return url


class Neo4jSettings(Section):
    uri: str = "bolt://localhost:7687"
    user: str = "neo4j"
    password: SecretStr = SecretStr("")
    database: str = "neo4j"
    max_types: int = Field(default=1000, ge=0, le=60_000)
    max_source_ids: PositiveInt = 1000

    @field_validator("uri")
    @classmethod
    def _is_of_neo4j(cls, uri: str) -> str:
        if fault := fault_of_neo4j(uri):
            raise ValueError(fault)
        return uri


class StoresSettings(Section):
    postgres: PostgresSettings = PostgresSettings()
    graph: Literal["postgres", "neo4j"] = "postgres"
    neo4j: Neo4jSettings = Neo4jSettings()


class CypherSettings(Section):
    """The user of the Neo4j from which ``import cypher`` reads.

    They are not those of ``stores.neo4j``, so that no password is sent to another server.
    """

    user: str = "neo4j"
    password: SecretStr = SecretStr("")
    database: str = ""


class TlsSettings(Section):
    """Files with the certificates and the key by which processes of a cluster trust each other."""

    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""


class EngineSettings(Section):
    """The execution of steps: in processes of this machine, or in workers of a Dask cluster.

    ``workers`` is the number of processes for steps that ask no endpoint. In a cluster it is the
    number of workers that a run waits for before the first such step; ``adaptive`` is for a cluster
    that grows with the number of waiting tasks. ``wait_seconds`` is the most that a run waits for a
    worker. An input of at least ``task_rows`` rows is divided into buckets.
    """

    kind: Literal["local", "dask"] = "local"
    address: str = ""
    workers: Annotated[int, Field(ge=1, le=10_000)] | Literal["adaptive"] = 1
    wait_seconds: float = Field(default=60, gt=0)
    task_rows: PositiveInt | None = None
    tls: TlsSettings = TlsSettings()

    @property
    def local_workers(self) -> int:
        """The number of processes on this machine that work; 1 where a cluster does."""
        return 1 if self.kind == "dask" or self.workers == "adaptive" else self.workers

    @model_validator(mode="after")
    def _has_what_its_kind_needs(self) -> Self:
        if self.kind == "dask" and not self.address.startswith(("tcp://", "tls://")):
            raise ValueError(
                "kind: dask needs the scheduler's address; set address: tcp://host:8786, or"
                " tls://host:8786"
            )
        if self.kind == "local" and (self.workers == "adaptive" or self.workers > MOST_PROCESSES):
            raise ValueError(
                f"workers: of this machine from 1 to {MOST_PROCESSES}; more, or adaptive, is for"
                " kind: dask"
            )
        return self


UNLIMITED = "unlimited"


class AllowSettings(Section):
    """Limits of a question over HTTP and MCP, and of the cost of all such questions in a day (UTC).

    ``models`` are names of models.chat. ``max_records`` limits top_k, chunk_top_k,
    related_chunk_number and primer_reports. A limit that is left out comes from ``query``:
    ``models`` from its model, ``max_prompt_tokens`` from max_total_tokens, ``max_calls`` from
    max_calls. ``max_records`` is then the largest of these four in ``query``, at least 100.

    ``concurrency`` is the number of queries of one key or user that may run at the same time, if
    several callers can ask. By default it is a quarter of ``serve.concurrency``.
    """

    modes: tuple[Mode, ...] = SEARCH_MODES
    models: tuple[str, ...] | None = None
    system_prompt: bool = False
    max_records: PositiveInt | None = None
    max_prompt_tokens: PositiveInt | None = None
    max_calls: int | None = Field(default=None, ge=2)
    cost_per_day: NonNegativeFloat | Literal["unlimited"] = 10.0
    concurrency: PositiveInt | None = None


def _as_list(given: Any) -> Any:
    """Return a list for a single name: of that name, or an empty one for ""."""
    if not isinstance(given, str):
        return given
    return [given] if given else []


def _has_conditions(given: Any) -> Any:
    """Check that ``given`` names a condition.

    A ``where`` without one would show all documents, though somebody meant to hide some.
    """
    if not isinstance(given, Mapping) or not given:
        raise ValueError("no condition on documents; write one, such as {department: public}")
    return given


Conditions = Annotated[dict[str, Any], BeforeValidator(_has_conditions)]


class ViewSettings(Section):
    """A part of the documents, which has a workspace and a graph of its own. ``where`` has the
    conditions that its documents satisfy."""

    where: Conditions


class RightsSettings(Section):
    """Rights of a key, or of each user of a group; those that are left out are as in ``allow``.

    ``where`` has conditions on documents; nothing of other documents is shown. ``cost_per_day``
    limits the questions of this key or user. An ``editor`` may make changes, unless
    ``serve.read_only`` is set. A ``writer`` may send and delete documents and request runs, unless
    it is set; ``run_cost_per_day`` limits these runs. ``workspace`` is one name or a list of names
    of the workspaces that may be asked; ``view`` is the only view of ``serve.views`` that may be
    asked.
    """

    workspace: Annotated[tuple[WorkspaceName, ...], BeforeValidator(_as_list)] = ()
    modes: tuple[Mode, ...] | None = None
    models: tuple[str, ...] | None = None
    system_prompt: bool | None = None
    max_records: PositiveInt | None = None
    max_prompt_tokens: PositiveInt | None = None
    max_calls: int | None = Field(default=None, ge=2)
    cost_per_day: NonNegativeFloat | None = None
    concurrency: PositiveInt | None = None
    where: Conditions = {}
    view: str = ""
    editor: bool = False
    writer: bool = False
    run_cost_per_day: NonNegativeFloat | None = None


class KeySettings(RightsSettings):
    """A key and its rights. With ``acts_for_users`` its requests name the user for whom they ask,
    in the headers of ``serve.users``."""

    key: SecretStr = SecretStr("")
    acts_for_users: bool = False


def _is_network(address: str) -> str:
    """Check that the text is an IP address or a network, such as 10.0.0.0/8."""
    try:
        ip_network(address)
    except ValueError as error:
        raise ValueError(
            f"{error}; write an address, or a network that begins with it: 10.0.0.5, 10.0.0.0/8"
        ) from None
    return address


def _is_origin(address: str) -> str:
    """Check that the text is an origin as a browser sends it, or "*" for any."""
    if address != "*" and not re.fullmatch(r"[a-z][a-z0-9+.-]*://[^/?#@\sA-Z]+", address):
        raise ValueError(
            "no origin; write scheme, host and port in lower case, such as"
            " https://wiki.example.org, or '*' for any"
        )
    return address


def _is_page_address(address: str) -> str:
    """Check that the text is the address of a page, or empty."""
    url = urlsplit(address)
    if address and (url.scheme not in ("http", "https") or not url.hostname):
        raise ValueError("no address of a page; write https://HOST, with a path if it has one")
    # Brackets and blanks would end a link in Markdown.
    if re.search(r"[?#()<>\s]", address):
        raise ValueError("an address with ?, #, a bracket or a blank; leave them out")
    return address.rstrip("/")


class OidcSettings(Section):
    """An OpenID Connect provider by which people sign in on the page.

    ``public_url`` is the address of this server's page in browsers. ``user_claim`` and
    ``groups_claim`` name claims of the ID token or of the provider's userinfo.
    """

    issuer: str = ""
    client_id: str = ""
    client_secret: SecretStr = SecretStr("")
    public_url: str = ""
    scopes: tuple[str, ...] = ("openid", "profile", "email")
    user_claim: str = "preferred_username"
    groups_claim: str = "groups"

    @property
    def metadata_address(self) -> str:
        """Return the address at which the provider describes itself (OpenID Connect Discovery 1.0,
        section 4)."""
        return f"{self.issuer.rstrip('/')}/.well-known/openid-configuration"

    @property
    def redirect_address(self) -> str:
        """Return the address to which the provider sends people back."""
        return f"{self.public_url.rstrip('/')}/oidc/callback"

    @model_validator(mode="after")
    def _is_whole_and_encrypted(self) -> Self:
        if not self.issuer:
            if self.client_id or self.client_secret.get_secret_value() or self.public_url:
                raise ValueError(
                    "issuer is empty; set it to the provider's address, or remove oidc"
                )
            return self
        if not self.client_id or not self.public_url:
            raise ValueError("issuer needs client_id and public_url beside it; set both")
        for name in ("issuer", "public_url"):
            url = urlsplit(getattr(self, name))
            is_here = url.hostname in ("localhost", "127.0.0.1", "::1")
            if not url.hostname or not (
                url.scheme == "https" or (url.scheme == "http" and is_here)
            ):
                raise ValueError(
                    f"{name}: no https address; write https://HOST, or http:// for localhost alone"
                )
        return self


class UsersSettings(Section):
    """Users whom another system has signed in: an OpenID Connect provider, a proxy or a front end.

    ``groups`` has rights by a group's name in that system, "*" for everybody; the first group that
    a user is in counts. ``proxies`` are addresses or networks whose requests may name the user and
    the user's groups, in two headers.
    """

    groups: dict[str, RightsSettings] = {}
    oidc: OidcSettings = OidcSettings()
    proxies: tuple[Annotated[str, AfterValidator(_is_network)], ...] = ()
    user_header: UserHeader = "X-Forwarded-User"
    groups_header: UserHeader = "X-Forwarded-Groups"


class AuditSettings(Section):
    """The audit log in data/audit. ``texts`` says how the texts of questions and edits are kept,
    ``keep_days`` how long each day's file is kept."""

    enabled: bool = False
    texts: Literal["text", "hash"] = "hash"
    keep_days: PositiveInt = 90


class PostedSettings(Section):
    """Limits of documents over HTTP: of one request, and of the folder ``input.owned``."""

    max_request_mb: PositiveInt = 32
    max_documents: PositiveInt = 1000
    max_total_mb: PositiveInt = 10_000
    max_files: PositiveInt = 100_000


class RunsSettings(Section):
    """The ceilings of runs that are requested over HTTP. A run that may spend needs one of them, or
    one of its own. ``workflows`` are those that can be requested; by default that of settings."""

    workflows: tuple[str, ...] = ()
    cost_per_run: NonNegativeFloat | None = None
    cost_per_day: NonNegativeFloat | None = None


class MetricsSettings(Section):
    """Figures for Prometheus.

    ``textfile`` is the file that each run writes for node_exporter, "" for one in data/runs.
    """

    textfile: str = ""


class TracingSettings(Section):
    """Spans of OpenTelemetry. ``endpoint`` is that of a collector, by OTLP over HTTP; "": none."""

    endpoint: str = Field(default="", pattern=r"^(https?://\S+)?$")


class ServeSettings(Section):
    """Settings of ``graphmill serve`` and ``graphmill mcp``.

    ``concurrency`` is the number of queries that may ask a chat model at the same time; up to 16
    more that ask none may run beside them. ``waiting`` is how many further queries may wait,
    half of them of one key.
    ``timeout`` bounds a query in seconds. ``request_timeout`` is how long a request's headers may
    take to arrive, and its body. ``grace`` is how long queries may go on when the server is
    stopped. ``public_url`` is the address of the page in browsers, to which answers for chat
    clients link. /metrics is off unless ``metrics_key`` or ``metrics_port`` is set. With a port it
    is served there, else at the address of the server.
    """

    host: str = "127.0.0.1"
    port: int = Field(default=8020, ge=0, le=65535)
    api_key: SecretStr = SecretStr("")
    keys: dict[KeyName, KeySettings] = {}
    users: UsersSettings = UsersSettings()
    views: dict[ViewName, ViewSettings] = {}
    audit: AuditSettings = AuditSettings()
    documents: PostedSettings = PostedSettings()
    runs: RunsSettings = RunsSettings()
    allow: AllowSettings = AllowSettings()
    page: bool = True
    public_url: Annotated[str, AfterValidator(_is_page_address)] = ""
    session_hours: float = Field(default=12, gt=0)
    read_only: bool = True
    cors_origins: tuple[Annotated[str, AfterValidator(_is_origin)], ...] = ()
    concurrency: int = Field(default=64, ge=1, le=1000)
    waiting: int = Field(default=256, ge=0)
    timeout: float = Field(default=300, gt=0)
    request_timeout: float = Field(default=30, gt=0)
    max_body_kb: PositiveInt = 1024
    grace: float = Field(default=5, ge=0)
    metrics_key: SecretStr = SecretStr("")
    metrics_port: int | None = Field(default=None, ge=0, le=65535)


class Settings(Section):
    """All settings of a project.

    ``owner`` names the owner of the workspace's rows; "" stands for the project's own id
    (pipeline/runs/owner.py).
    """

    workspace: WorkspaceName = "default"
    owner: OwnerName = ""
    workflow: str = "index"
    language: str = "English"
    max_reject_ratio: float = Field(default=0.1, ge=0, le=1)
    max_delete_ratio: float = Field(default=0.3, ge=0, le=1)
    input: InputSettings = InputSettings()
    inputs: Annotated[tuple[Input, ...], AfterValidator(check_names)] = ()
    graphrag: GraphragSettings = GraphragSettings()
    lightrag: LightragSettings = LightragSettings()
    models: ModelsSettings = ModelsSettings()
    stores: StoresSettings = StoresSettings()
    cypher: CypherSettings = CypherSettings()
    query: QuerySettings = QuerySettings()
    engine: EngineSettings = EngineSettings()
    serve: ServeSettings = ServeSettings()
    metrics: MetricsSettings = MetricsSettings()
    tracing: TracingSettings = TracingSettings()
    verbs: tuple[str, ...] = ()
    snapshots: str = "data/snapshots"
    output: str = "data/output"
    cache: str = Field(default="sqlite:///data/cache.sqlite", repr=False)

    @field_validator("snapshots")
    @classmethod
    def _are_in_a_folder_or_a_bucket(cls, snapshots: str) -> str:
        if is_object_store(snapshots) and (fault := fault_of_object_store(snapshots)):
            raise ValueError(fault)
        return snapshots

    @model_validator(mode="after")
    def _can_name_the_workspaces_of_views(self) -> Self:
        for view in self.serve.views:
            name = self._workspace_of_view(view)
            if len(name) > LONGEST_WORKSPACE:
                raise ValueError(
                    f"serve.views.{view}: its workspace would be called '{name}', which has more"
                    f" than {LONGEST_WORKSPACE} characters; give the view or the workspace a"
                    " shorter name"
                )
        return self

    def of_view(self, view: str) -> Self:
        """Return the same settings over the workspace of one of ``serve.views``."""
        return self.model_copy(update={"workspace": self._workspace_of_view(view)})

    def _workspace_of_view(self, view: str) -> str:
        return f"{self.workspace}--{view}"

    def own_cache(self, root: Path) -> Path | None:
        """Return the file of the cache if it is one in the project's folder ``root``.

        A file elsewhere may have several projects, and another database has no file.
        """
        prefix, _, name = self.cache.partition(":///")
        file = root / name
        is_own = prefix == "sqlite" and file.resolve().is_relative_to(root.resolve())
        return file if is_own else None

    @property
    def snapshots_are_remote(self) -> bool:
        return is_object_store(self.snapshots)
