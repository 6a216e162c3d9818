"""What a question may ask for."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, PositiveInt

Mode = Literal["naive", "local", "global", "hybrid", "mix", "graph", "bypass"]


class QueryRequest(BaseModel):
    """A question and how to answer it.

    ``top_k``: entities and relationships to retrieve; ``chunk_top_k``: text units; the budgets are in tokens.
    ``hl_keywords`` and ``ll_keywords``, where given, replace the extraction of keywords.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    query: str = Field(min_length=1)
    mode: Mode = "hybrid"
    only_need_context: bool = False
    only_need_prompt: bool = False
    response_type: str = Field(default="Multiple Paragraphs", min_length=1)
    top_k: PositiveInt = 60
    chunk_top_k: PositiveInt = 20
    max_entity_tokens: PositiveInt = 6000
    max_relation_tokens: PositiveInt = 8000
    max_total_tokens: PositiveInt = 30000
    hl_keywords: tuple[str, ...] = ()
    ll_keywords: tuple[str, ...] = ()
    user_prompt: str = ""
