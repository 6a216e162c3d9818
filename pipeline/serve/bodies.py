"""The bodies of requests and answers of the HTTP API, as its OpenAPI document shows them."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from pipeline.query.request import QueryRequest
from pipeline.settings.query_options import QuerySettings

QUESTION = "Who founded the Brack Institute?"
EXAMPLES = [
    {"query": QUESTION},
    {"query": QUESTION, "mode": "local", "top_k": 20, "ll_keywords": ["Brack Institute"]},
]


class Asked(QueryRequest):
    """A question and how to answer it. What is left out, or null, is as the project's settings have
    it."""

    @model_validator(mode="before")
    @classmethod
    def _null_is_not_given(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        return {name: value for name, value in given.items() if value is not None}

    @property
    def options(self) -> dict[str, Any]:
        """The options that the request gives, as ``Project.query`` takes them."""
        return self.model_dump(exclude_unset=True, exclude={"query"})


def body_of(settings: QuerySettings) -> type[Asked]:
    """Return the model of a query's body, whose schema shows the defaults of these settings."""
    defaults = settings.options

    def show_defaults(schema: dict[str, Any]) -> None:
        for name in schema["properties"].keys() & defaults.keys():
            schema["properties"][name]["default"] = defaults[name]
        schema["examples"] = EXAMPLES

    class Query(Asked):
        model_config = ConfigDict(json_schema_extra=show_defaults)

    Query.__doc__ = Asked.__doc__
    return Query


class Body(BaseModel):
    """Others may be added."""

    model_config = ConfigDict(extra="allow")


class KeywordsShown(BaseModel):
    high: list[str] = Field(description="Themes.")
    low: list[str] = Field(description="Names.")


class ReferenceShown(Body):
    """A passage; ``start`` and ``end``: its place in the document's text, in characters."""

    id: int = Field(description="The number by which the answer cites it: [1].")
    chunk_id: str
    document_id: str
    source: str = Field(description="The document's path below the input folder.")
    title: str
    metadata: dict[str, Any] | None
    start: int
    end: int
    heading: str = Field(default="", description="The headings above it, joined by ' > '.")
    date: str = Field(
        default="", description="The document's date, as 2024, 2024-05 or 2024-05-03; empty: none."
    )
    page: int | None = Field(
        default=None, description="On which it begins, if the document has pages."
    )
    reports: list[int] = Field(
        default=[], description="The reports that the answer cites and that rest on it."
    )
    content: str | None = Field(default=None, description="If asked for.")


class PropertyShown(Body):
    """A value that a document gives for a property of an entity."""

    name: str
    type: str = Field(description="string, number, date, enum or list.")
    value: str = Field(description="A text, also of a number; of a date ISO 8601.")
    unit: str = Field(default="", description="Of a number, if the property has one.")
    text_unit_id: str = Field(description="The first passage of the document that gives it.")
    document_id: str
    title: str = Field(description="Of the document.")
    date: str = Field(default="", description="Of the document, if it is known.")


class EntityShown(Body):
    id: str
    name: str
    type: str
    description: str
    degree: int = Field(default=0, description="Its relationships.")
    text_unit_ids: list[str]
    properties: list[PropertyShown] = Field(
        default=[], description="Values of its properties, of the newest document first."
    )


class StatementShown(Body):
    """A fact that one passage states of the two ends of a relationship."""

    type: str = Field(description="Its kind in a word or two; empty if the passage has none.")
    description: str
    text_unit_id: str = Field(description="The passage that states it.")
    valid_from: str = Field(default="", description="From when it holds, as ISO 8601, if known.")
    valid_to: str = Field(default="", description="Until when it holds, as ISO 8601, if known.")
    attributes: dict[str, Any] = {}


class RelationshipShown(Body):
    id: str
    source: str = Field(description="The name of the entity it starts at.")
    target: str = Field(description="The name of the entity it ends at.")
    source_entity_id: str = ""
    target_entity_id: str = ""
    description: str
    keywords: list[str]
    weight: float
    text_unit_ids: list[str]
    statements: list[StatementShown] = Field(
        default=[], description="The first ten, of /query/data; none if no passage states any."
    )


class ChunkShown(Body):
    """A passage: ``content`` is the document's text from ``start`` to ``end``, in characters."""

    id: str
    document_id: str
    source: str
    start: int
    end: int
    content: str
    heading: str = Field(default="", description="The headings above it, joined by ' > '.")
    tokens: int = 0
    score: float | None = Field(description="Cosine similarity to the question.")
    date: str = Field(default="", description="The document's date, if one is known.")
    lane: str = Field(
        default="", description="What found it first: vector, graph, entity or relationship."
    )
    place: int = Field(default=0, description="Where it stood among what that lane found, from 1.")
    frequency: int = Field(default=0, description="How often it came up there.")
    rerank_score: float | None = Field(
        default=None, description="By models.rerank, if one ranked it."
    )


class ReportShown(Body):
    """A report on a community of entities; ``content`` is Markdown."""

    number: int = Field(description="The number by which the answer cites it: [Data: Reports (1)].")
    id: str
    level: int = Field(description="0 is the coarsest.")
    title: str
    summary: str
    content: str
    rating: float
    weight: int = Field(description="How many passages the community's entities appear in.")


class ClaimShown(Body):
    number: int
    id: str
    subject: str
    object: str
    type: str
    status: str = Field(description="TRUE, FALSE or SUSPECTED.")
    description: str
    source_text: str


class Found(Body):
    mode: str
    question: str
    keywords: KeywordsShown
    abstained: bool = Field(description="The documents do not answer the question.")
    reason: str = Field(description="Why they do not.")
    references: list[ReferenceShown]
    tokens: dict[str, int] = Field(description="Of the prompt and its parts.")
    usage: dict[str, int] = Field(
        description="Calls of the chat model, and their tokens as the endpoint counted them."
    )
    cost: float | None = Field(
        default=None,
        description=(
            "Of all calls made for the question, by the prices of settings; null without a price."
        ),
    )
    question_id: str = Field(default="", description="By which graphmill usage knows the question.")
    most_calls: int = Field(
        default=1, description="Calls of the chat model that the question could have taken."
    )
    timings_ms: dict[str, float]
    dropped: dict[str, int] = Field(
        default={}, description="Of each kind, how many the budgets had no room for."
    )
    notes: list[str] = Field(description="What those who run the stores should know.")


class LikelySentence(Body):
    """The sentence that shares the rarest words with the question."""

    text: str
    number: int = Field(description="The passage that has it: the id of a reference.")


class Evidence(Found):
    """The evidence that was found, best first."""

    entities: list[EntityShown]
    relationships: list[RelationshipShown]
    chunks: list[ChunkShown]
    reports: list[ReportShown] = Field(
        default=[], description="In modes community and drift, and context graphrag."
    )
    claims: list[ClaimShown] = Field(default=[], description="In mode drift, and context graphrag.")
    most_likely: LikelySentence | None = Field(
        default=None,
        description="The sentence most likely to answer, of /query/data; none if none is likely.",
    )


class CitedReport(Body):
    number: int = Field(description="The number by which the answer cites it: [Data: Reports (1)].")
    id: str
    level: int = Field(description="0 is the coarsest.")
    title: str


class AnnotationShown(Body):
    """A citation in the answer's text. Places are counted in Unicode code points, from 0."""

    start: int
    end: int = Field(description="The first place behind it.")
    number: int = Field(description="The passage that is cited: the id of a reference.")
    supported: bool = Field(
        description="The passage holds the names and numbers of what is said before the citation."
    )


class AnswerShown(Found):
    """An answer. With ``include=evidence`` it also has the fields of ``Evidence``."""

    answer: str = Field(
        description="Cites references by their ids; without a chat model, the evidence itself."
    )
    annotations: list[AnnotationShown] = Field(
        description="Its citations. No other text of it is one, whatever it is."
    )
    cited: list[int] = Field(
        description="The references that it cites, by their ids, in the order of the text."
    )
    reports: list[CitedReport] = Field(default=[], description="Those that it cites.")
    removed_citations: int = Field(
        description="Citations of what the model was not shown; they are not in the answer."
    )
    unsupported_citations: int = Field(
        default=0, description="How many annotations are not supported."
    )
    cites_nothing: bool = Field(
        default=False, description="A model wrote it, and cites nothing that it was shown."
    )


class FieldFault(BaseModel):
    field: str
    message: str


class Fault(BaseModel):
    type: str = Field(examples=["invalid_request"])
    message: str = Field(examples=["unknown field 'topk'; did you mean 'top_k'?"])
    fields: list[FieldFault] = Field(
        default=[], description="Which fields of the request are wrong, and why."
    )


class Failed(BaseModel):
    error: Fault


class StoreHealth(BaseModel):
    status: str = Field(description="ok, empty or unavailable.")
    problem: str = Field(
        default="", description="What is wrong; what to do. Only for those who have the key."
    )


class QueriesShown(BaseModel):
    running: int
    waiting: int


class HealthShown(BaseModel):
    status: str = Field(description="ok or unavailable.")
    problem: str = Field(
        default="", description="What is wrong; what to do. Only for those who have the key."
    )
    workspace: str
    workflow: str = Field(default="", description="Whose tables the stores show.")
    chat: bool = Field(
        description=(
            "Whether a chat model is configured; without one, answers are the evidence itself."
        )
    )
    stores: dict[str, StoreHealth]
    queries: QueriesShown
