"""settings.yaml, typed: every key optional, an unknown key an error."""

from ipaddress import ip_network
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
from pipeline.settings.providers import ConnectionSettings, ProviderSettings, Text
from pipeline.settings.query_fields import SEARCH_MODES, Mode
from pipeline.settings.query_options import QuerySettings

EMBEDDED = "embedded"
MOST_PROCESSES = 256
LONGEST_WORKSPACE = 63
"""Characters, as its pattern says."""


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class InputStep(Section):
    """A verb applied to the documents after loading."""

    verb: str
    args: dict[str, Any] = {}


class InputSettings(Section):
    path: str = "data/input"
    file_pattern: str = "**/*"
    id_column: str = "id"
    title_column: str = "title"
    text_column: str = "text"
    encoding: str = ""
    encodings: tuple[str, ...] = ("gb18030", "shift_jis", "cp1252")
    max_file_mb: PositiveInt = 100
    converter: str | tuple[str, ...] | dict[str, str | tuple[str, ...]] = ""
    convert_seconds: float = Field(default=900, gt=0)
    convert_mb: PositiveInt = 768
    steps: tuple[InputStep, ...] = ()


class GraphragSettings(Section):
    path: str = "data/graphrag"


class Price(Section):
    """Per million tokens."""

    input: NonNegativeFloat = 0.0
    output: NonNegativeFloat = 0.0


SHIPPED_MODEL = "gpt-4o-mini"
SHIPPED_PRICE = Price(input=0.15, output=0.60)
"""Of the shipped model at OpenAI, in dollars."""
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
        return bool(self.needs_no_address or self.base_url or self.api_key.get_secret_value())

    @property
    def named_model(self) -> str:
        """Return ``model``; of a Python function whose model has no name, the function's name."""
        unnamed = self.kind == "python" and not ("model" in self.model_fields_set and self.model)
        return self.function_name if unnamed else self.model


class BatchSettings(Section):
    """``failed``: whether rows that failed in a batch are asked for directly or rejected."""

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
        """Return the price that settings give; else that of the shipped model, where it is OpenAI
        that answers."""
        at_openai = self.provider == "openai" and self.base_url.rstrip("/") in OPENAI_HOSTS
        shipped = SHIPPED_PRICE if at_openai and self.model == SHIPPED_MODEL else None
        return self.price or shipped

    @property
    def has_price_of_another_model(self) -> bool:
        """Tell whether the price is that of the shipped model, which earlier versions wrote into
        settings.yaml."""
        return self.price == SHIPPED_PRICE and SHIPPED_MODEL not in self.model

    @property
    def options(self) -> dict[str, Any]:
        """What is sent beside the messages: the options that are set."""
        names = ("temperature", "top_p", "seed", "max_tokens", "reasoning_effort", "extra_body")
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}


class EmbeddingSettings(EndpointSettings):
    """``provider`` may be left out: an endpoint's model where one is named, else the builtin
    one."""

    provider: Literal["builtin", "openai", "local", "azure", "litellm", "python"] | None = None
    model: str = ""
    dimensions: PositiveInt | None = None
    batch_size: PositiveInt = 64

    @property
    def kind(self) -> str:
        return self.provider or ("openai" if self.base_url or self.model else "builtin")


class RerankPrice(Section):
    """``input``: per million tokens; ``search``: per thousand searches. Endpoints are paid by the
    one or the other."""

    input: NonNegativeFloat = 0.0
    search: NonNegativeFloat = 0.0


class RerankSettings(Section, ConnectionSettings):
    """``provider``: an address with the protocol of Jina and Cohere, or a cross-encoder on this
    machine."""

    provider: Literal["endpoint", "local"] = "endpoint"
    base_url: str = Field(default="", repr=False)
    api_key: SecretStr = SecretStr("")
    model: str = ""
    batch_size: PositiveInt = 100
    max_characters: PositiveInt = 8000
    concurrency: PositiveInt = 4
    timeout: float = Field(default=30, gt=0)
    max_retries: int = Field(default=2, ge=0)
    price: RerankPrice | None = None


class ModelsSettings(Section):
    chat: dict[str, ChatSettings] = {"default": ChatSettings()}
    embedding: dict[str, EmbeddingSettings] = {"default": EmbeddingSettings()}
    rerank: dict[str, RerankSettings] = {}


class HnswSettings(Section):
    """Of pgvector's index: ``m`` and ``ef_construction`` decide how it is built, ``ef_search`` the
    least breadth of a search, ``build_mb`` the memory it may be built in."""

    m: int = Field(default=16, ge=2, le=100)
    ef_construction: int = Field(default=64, ge=4, le=1000)
    ef_search: int = Field(default=100, ge=1, le=1000)
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


class TlsSettings(Section):
    """Files, of the certificates and the key that a process of a cluster shows the others."""

    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""


class EngineSettings(Section):
    """``workers``: processes that steps are worked on in which ask no endpoint; of a cluster those
    that are waited for before the first of these begins, ``adaptive`` where it grows by what waits
    there. ``wait_seconds``: the most that a run waits for a worker of a cluster. ``task_rows``: of
    a step's input, from which on it is worked on in buckets."""

    kind: Literal["local", "dask"] = "local"
    address: str = ""
    workers: Annotated[int, Field(ge=1, le=10_000)] | Literal["adaptive"] = 1
    wait_seconds: float = Field(default=60, gt=0)
    task_rows: PositiveInt | None = None
    tls: TlsSettings = TlsSettings()

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
    """Limits of a question over HTTP and MCP, and of what all of them together may cost in a day of
    UTC. ``models``: of models.chat. ``max_records``: of top_k, chunk_top_k, related_chunk_number
    and primer_reports. What is left out is as ``query`` has it: ``models`` its model,
    ``max_prompt_tokens`` its max_total_tokens, ``max_calls`` its max_calls, ``max_records`` the
    most of its own, or 100. ``concurrency``: how many queries of one key or user may run at a time
    where several can ask; by default a quarter of ``serve.concurrency``."""

    modes: tuple[Mode, ...] = SEARCH_MODES
    models: tuple[str, ...] | None = None
    system_prompt: bool = False
    max_records: PositiveInt | None = None
    max_prompt_tokens: PositiveInt | None = None
    max_calls: int | None = Field(default=None, ge=2)
    cost_per_day: NonNegativeFloat | Literal["unlimited"] = 10.0
    concurrency: PositiveInt | None = None


WorkspaceName = Annotated[str, Field(pattern=r"^[a-z0-9_-]{1,63}$")]


def _names(given: Any) -> Any:
    """One stands for a list of one."""
    return [given] * bool(given) if isinstance(given, str) else given


class ViewSettings(Section):
    """Documents that have a workspace and a graph of their own. ``where``: conditions on these
    documents."""

    where: dict[str, Any] = Field(min_length=1)


ViewName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,30}$")]


class RightsSettings(Section):
    """Rights of a key, or of each user of a group; those that are left out are as in ``allow``.

    ``where``: conditions on documents; of others nothing is shown. ``cost_per_day``: of the
    questions of this key or this user. ``editor``: may change something, unless
    ``serve.read_only``. ``workspace``: that may be asked, a name or a list of names. ``view``: of
    ``serve.views``, the only one that may be asked."""

    workspace: Annotated[tuple[WorkspaceName, ...], BeforeValidator(_names)] = ()
    modes: tuple[Mode, ...] | None = None
    models: tuple[str, ...] | None = None
    system_prompt: bool | None = None
    max_records: PositiveInt | None = None
    max_prompt_tokens: PositiveInt | None = None
    max_calls: int | None = Field(default=None, ge=2)
    cost_per_day: NonNegativeFloat | None = None
    concurrency: PositiveInt | None = None
    where: dict[str, Any] = {}
    view: str = ""
    editor: bool = False


class KeySettings(RightsSettings):
    """Rights of who asks by a key of their own. ``acts_for_users``: its requests name the user for
    whom they ask, in the headers of ``serve.users``."""

    key: SecretStr = SecretStr("")
    acts_for_users: bool = False


def _is_network(address: str) -> str:
    try:
        ip_network(address)
    except ValueError as error:
        raise ValueError(
            f"{error}; write an address, or a network that begins with it: 10.0.0.5, 10.0.0.0/8"
        ) from None
    return address


HeaderName = Annotated[str, Field(pattern=r"^[A-Za-z0-9-]{1,64}$")]


class OidcSettings(Section):
    """An OpenID Connect provider by which people sign in on the page. ``public_url``: the address
    of this server's page as browsers have it. ``user_claim`` and ``groups_claim``: of the ID token
    or the provider's userinfo."""

    issuer: str = ""
    client_id: str = ""
    client_secret: SecretStr = SecretStr("")
    public_url: str = ""
    scopes: tuple[str, ...] = ("openid", "profile", "email")
    user_claim: str = "preferred_username"
    groups_claim: str = "groups"

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
    """People whom something else has signed in. ``groups``: rights by the name that a group has
    there, "*" for everybody; the first one that a user is in counts. ``proxies``: addresses or
    networks whose requests may name the user, and their groups, in two headers."""

    groups: dict[str, RightsSettings] = {}
    oidc: OidcSettings = OidcSettings()
    proxies: tuple[Annotated[str, AfterValidator(_is_network)], ...] = ()
    user_header: HeaderName = "X-Forwarded-User"
    groups_header: HeaderName = "X-Forwarded-Groups"


class AuditSettings(Section):
    """The audit log, data/audit. ``texts``: how questions, and what edits say, are kept;
    ``keep_days``: how long a day's file is."""

    enabled: bool = False
    texts: Literal["text", "hash"] = "hash"
    keep_days: PositiveInt = 90


KeyName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,64}$")]


class ServeSettings(Section):
    """Settings of ``graphmill serve`` and ``graphmill mcp``. ``concurrency``: queries at a time
    that may ask a chat model, and up to 16 that ask none; ``waiting``: how many more may wait;
    ``timeout``: seconds a query may take in all; ``request_timeout``: that a request's headers may
    take to come, and its body; ``grace``: seconds that queries get to end when the server is
    stopped."""

    host: str = "127.0.0.1"
    port: int = Field(default=8020, ge=0, le=65535)
    api_key: SecretStr = SecretStr("")
    keys: dict[KeyName, KeySettings] = {}
    users: UsersSettings = UsersSettings()
    views: dict[ViewName, ViewSettings] = {}
    audit: AuditSettings = AuditSettings()
    allow: AllowSettings = AllowSettings()
    page: bool = True
    session_hours: float = Field(default=12, gt=0)
    read_only: bool = True
    cors_origins: tuple[str, ...] = ()
    concurrency: int = Field(default=64, ge=1, le=1000)
    waiting: int = Field(default=256, ge=0)
    timeout: float = Field(default=300, gt=0)
    request_timeout: float = Field(default=30, gt=0)
    max_body_kb: PositiveInt = 1024
    grace: float = Field(default=5, ge=0)


class Settings(Section):
    """``owner``: whose the workspace's rows are; empty for the project's own id
    (pipeline/runs/owner.py)."""

    workspace: str = Field(default="default", pattern=r"^[a-z0-9_-]{1,63}$")
    owner: str = Field(default="", pattern=r"^[A-Za-z0-9_.-]{0,64}$")
    workflow: str = "index"
    language: str = "English"
    max_reject_ratio: float = Field(default=0.1, ge=0, le=1)
    max_delete_ratio: float = Field(default=0.3, ge=0, le=1)
    input: InputSettings = InputSettings()
    graphrag: GraphragSettings = GraphragSettings()
    models: ModelsSettings = ModelsSettings()
    stores: StoresSettings = StoresSettings()
    query: QuerySettings = QuerySettings()
    engine: EngineSettings = EngineSettings()
    serve: ServeSettings = ServeSettings()
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

    @property
    def snapshots_are_remote(self) -> bool:
        return is_object_store(self.snapshots)
