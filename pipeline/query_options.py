"""How a question is answered: what settings.yaml gives defaults for and a request may choose for itself."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Mode = Literal["naive", "local", "global", "hybrid", "mix", "graph", "bypass"]
Records = Annotated[int, Field(ge=1, le=10_000)]
Tokens = Annotated[int, Field(ge=1, le=10_000_000)]
ChunkPick = Literal["RELATION", "WEIGHT", "VECTOR"]


class QueryOptions(BaseModel):
    """``mode``: where evidence is looked for (docs/query.md).

    ``top_k``: entities and relationships to retrieve; ``chunk_top_k``: text units. ``max_entity_tokens`` and
    ``max_relation_tokens`` bound their parts of the context, ``max_total_tokens`` the whole prompt.

    ``kg_chunk_pick_method``: which text units stand for the entities and relationships that were found, with WEIGHT
    and VECTOR about ``related_chunk_number`` for each.

    ``min_score``: a question whose best text unit is less similar than this is not answered; 0 answers any.

    ``response_type``: the form of the answer, in words. ``user_prompt`` is added to the answer's prompt,
    ``system_prompt`` replaces it; ``model`` names one of models.chat. ``only_need_context`` and ``only_need_prompt``
    stop before the answer.

    ``enable_rerank``: text units are ranked anew by models.rerank, where one is configured.
    ``include_references``: the documents shown are listed; ``include_chunk_content``: with the text that was shown.
    ``stream``: a streamed answer comes in pieces, not as one.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    mode: Mode = "hybrid"
    top_k: Records = 60
    chunk_top_k: Records = 20
    max_entity_tokens: Tokens = 6000
    max_relation_tokens: Tokens = 8000
    max_total_tokens: Tokens = 30000
    kg_chunk_pick_method: ChunkPick = "RELATION"
    related_chunk_number: Records = 5
    min_score: float = Field(default=0.0, ge=0, le=1)
    response_type: str = Field(default="Multiple Paragraphs", min_length=1)
    user_prompt: str = ""
    system_prompt: str = ""
    model: str = "default"
    only_need_context: bool = False
    only_need_prompt: bool = False
    enable_rerank: bool = True
    include_references: bool = True
    include_chunk_content: bool = False
    stream: bool = True
