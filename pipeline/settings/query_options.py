"""How a question is answered: what settings.yaml gives defaults for and a request may choose for
itself."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, model_validator

Mode = Literal["naive", "local", "global", "hybrid", "mix", "graph", "community", "drift", "bypass"]
PASSAGE_MODES: tuple[Mode, ...] = ("naive",)
"""Modes that read documents and their text units alone, and nothing that is made of several
documents. The first is the default of those who see some documents only."""
GRAPH_MODES = frozenset(get_args(Mode)) - {*PASSAGE_MODES, "bypass"}
"""Modes that read what is made of several documents; ``bypass`` reads no document at all."""
Records = Annotated[int, Field(ge=1, le=10_000)]
Tokens = Annotated[int, Field(ge=1, le=10_000_000)]
ChunkPick = Literal["RELATION", "WEIGHT", "VECTOR"]
RelationshipOrder = Literal["question", "rank"]
ContextKind = Literal["plain", "graphrag"]
Few = Annotated[int, Field(ge=1, le=100)]
Share = Annotated[float, Field(ge=0, le=1)]
Preset = Literal["graphmill", "lightrag"]
PRESETS: Mapping[str, Mapping[str, Any]] = {
    "graphmill": {},
    "lightrag": {
        "mode": "hybrid",
        "top_k": 60,
        "chunk_top_k": 20,
        "max_entity_tokens": 6000,
        "max_relation_tokens": 8000,
        "max_total_tokens": 30000,
        "kg_chunk_pick_method": "RELATION",
        "related_chunk_number": 5,
        "relationship_order": "rank",
        "number_rows": True,
    },
}
"""What is set where nothing else says: ``lightrag`` has the values of LightRAG's query parameters,
and its tables."""


class QueryOptions(BaseModel):
    """``mode``: where evidence is looked for (docs/query.md).

    ``top_k``: entities and relationships to retrieve; ``chunk_top_k``: text units.
    ``max_entity_tokens`` and ``max_relation_tokens`` bound their parts of the context,
    ``max_total_tokens`` the whole prompt.

    ``history_turns``: so many of the last questions of a conversation are kept, with their answers,
    as far as ``history_share`` of the prompt has room for them.

    ``kg_chunk_pick_method``: which text units stand for the entities and relationships that were
    found, with WEIGHT and VECTOR about ``related_chunk_number`` for each.

    ``relationship_order``: by their similarity to the question, in ``local`` those of the first
    entity first; or by ``rank``, the degrees of their ends. ``number_rows``: entities and
    relationships are shown with numbers, though nothing can cite these.

    ``min_score``: a question whose best text unit is less similar than this is not answered; 0
    answers any.

    ``response_type``: the form of the answer, in words; ``language``: its language, by default the
    question's. ``user_prompt`` is added to the answer's prompt, ``system_prompt`` replaces it;
    ``model`` names one of models.chat. ``only_need_context`` and ``only_need_prompt`` stop before
    the answer.

    ``enable_rerank``: text units are ranked anew by models.rerank, where one is configured.
    ``include_references``: the documents shown are listed; ``include_chunk_content``: with the text
    that was shown. ``stream``: a streamed answer comes in pieces, not as one.

    ``community_level``: reports of the communities of this level cover the graph, 0 the coarsest;
    ``dynamic_community_selection``: the model chooses among them from level 0 down. ``context``:
    with ``graphrag``, ``local`` shows reports and claims too, ``community_prop`` of the budget for
    reports, ``text_unit_prop`` for text units. ``max_map_tokens``: evidence in each call before the
    last; ``max_calls``: calls a question may make in modes ``community`` and ``drift``.
    ``primer_reports`` in ``primer_folds`` calls, then ``n_depth`` rounds of ``drift_k_followups``
    questions: mode ``drift``. ``general_knowledge``: the model may add what it knows, marked.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    mode: Mode = "graph"
    top_k: Records = 10
    chunk_top_k: Records = 10
    max_entity_tokens: Tokens = 6000
    max_relation_tokens: Tokens = 8000
    max_total_tokens: Tokens = 30000
    history_turns: int = Field(default=10, ge=0, le=1000)
    history_share: Share = 0.25
    kg_chunk_pick_method: ChunkPick = "RELATION"
    related_chunk_number: Records = 5
    relationship_order: RelationshipOrder = "question"
    number_rows: bool = False
    min_score: float = Field(default=0.0, ge=0, le=1)
    response_type: str = Field(default="Multiple Paragraphs", min_length=1)
    language: str = ""
    user_prompt: str = ""
    system_prompt: str = ""
    model: str = "default"
    only_need_context: bool = False
    only_need_prompt: bool = False
    enable_rerank: bool = True
    include_references: bool = True
    include_chunk_content: bool = False
    stream: bool = True
    community_level: int = Field(default=2, ge=0, le=100)
    dynamic_community_selection: bool = False
    context: ContextKind = "plain"
    community_prop: Share = 0.15
    text_unit_prop: Share = 0.5
    max_map_tokens: Tokens = 12000
    max_calls: int = Field(default=100, ge=2, le=1000)
    primer_reports: Records = 20
    primer_folds: Few = 5
    drift_k_followups: Few = 5
    n_depth: int = Field(default=2, ge=0, le=10)
    general_knowledge: bool = False

    @property
    def mixed(self) -> bool:
        """Whether reports and claims are shown beside what ``local`` finds."""
        return self.mode == "local" and self.context == "graphrag"

    @property
    def with_reports(self) -> bool:
        return self.mixed or self.mode in ("community", "drift")


class QuerySettings(QueryOptions):
    """The defaults of a project's questions: what it sets, else what its preset says."""

    preset: Preset = "graphmill"

    @model_validator(mode="before")
    @classmethod
    def _of_preset(cls, given: Any) -> Any:
        named = given.get("preset") if isinstance(given, dict) else None
        return {**PRESETS[named], **given} if isinstance(named, str) and named in PRESETS else given

    @property
    def options(self) -> dict[str, Any]:
        """What a request has that gives none of its own."""
        return self.model_dump(exclude={"preset"})

    @property
    def names_mode(self) -> bool:
        return not self.model_fields_set.isdisjoint(("mode", "preset"))
