"""Define the options of a query, each once.

``QueryFields`` has the options with a default, which settings.yaml may replace. ``RequestFields``
has those that only a request can give. Four things are made from them:

- the models that check settings and requests (``settings/query_options.py``,
  ``query/request.py``), and with them the bodies of the HTTP API,
- the options of ``graphmill query`` (``cli/query_command.py``),
- the parameters of the tools for assistants (``serve/tool_parameters.py``),
- the table in docs/query-options.md, which ``python -m tests.docs.option_table`` writes.

The command imports this module at every start. It therefore needs the standard library alone.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

Mode = Literal["naive", "local", "global", "hybrid", "mix", "graph", "community", "drift", "bypass"]
MODES: tuple[Mode, ...] = get_args(Mode)
SEARCH_MODES: tuple[Mode, ...] = tuple(mode for mode in MODES if mode != "bypass")
"""All modes that search in the documents."""
PASSAGE_MODES: tuple[Mode, ...] = ("naive",)
"""Modes that read documents and their text units alone, and no data made from several documents.
The first is the default of a caller who sees some documents only."""
REPORT_MODES: frozenset[Mode] = frozenset({"community", "drift"})
"""Modes that read community reports, and ask a chat model about them before the answer. Without
the model they find no text units."""
SHARED_DATA_MODES = frozenset(MODES) - {*PASSAGE_MODES, "bypass"}
"""Modes that read data made from several documents; ``bypass`` reads no document at all."""
MODES_FOR_TOOLS: Mapping[str, str] = {
    "naive": "passages that read like the question",
    "local": "about the things that the question names",
    "global": "about the question's themes",
    "hybrid": "local and global",
    "mix": "hybrid and naive",
    "graph": "passages that several steps of the graph lead to",
    "community": "reports on all the collection, for questions about it as a whole",
    "drift": "reports, then, for an answer, searches for what they leave open",
}
"""Search mode -> what an assistant reads about it."""
TOOL_TOKENS = 5000
"""The default of ``max_total_tokens`` for a tool. Several results of this size take no more than
25,000 tokens in one turn of a conversation."""
ChunkPick = Literal["RELATION", "WEIGHT", "VECTOR"]
RelationshipOrder = Literal["question", "rank"]
Preference = Literal["relevance", "newest"]
ContextKind = Literal["plain", "graphrag"]


@dataclass(frozen=True)
class Limits:
    """The least and the greatest allowed value of a number, or the least length of a text.

    A field has it in its ``Annotated`` type. pydantic checks the value and shows the limits in its
    schemas.
    """

    ge: float | None = None
    le: float | None = None
    min_length: int | None = None

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], Any]) -> Any:
        """Return the schema of the type with these limits. pydantic calls this method by its
        name."""
        limits = {name: limit for name, limit in asdict(self).items() if limit is not None}
        return {**handler(source), **limits}


@dataclass(frozen=True)
class Description:
    """The texts about an option, and its names on the command line.

    - ``help`` is shown by ``graphmill query --help``.
    - ``page`` is shown in docs/query-options.md, as Markdown.
    - ``tool`` is shown to an assistant. An option without it is no parameter of a tool.
    - ``also`` is a second name on the command line.
    - ``off`` is the name that turns a flag off, if that is not ``--no-NAME``.
    - ``metavar`` is the placeholder of the value.
    """

    help: str
    page: str
    tool: str = ""
    also: str = ""
    off: str = ""
    metavar: str | None = None


RECORDS = Limits(ge=1, le=10_000)
"""Records of one kind. More would fit into no prompt."""
TOKENS = Limits(ge=1, le=10_000_000)
"""Tokens. The limit is more than any model reads, so that only a slip is refused."""
SHARE = Limits(ge=0, le=1)
CALLS = Limits(ge=1, le=100)
"""Calls or searches within one part of a question. Each of them costs."""


class QueryFields:
    """The options of a query that have a default, which settings.yaml may replace."""

    mode: Annotated[
        Mode,
        Description(
            help=f"{', '.join(MODES[:-1])} or {MODES[-1]}.",
            page="where evidence is searched for; [modes](query.md#modes)",
            tool=(
                " ".join(f"{mode}: {about}." for mode, about in MODES_FOR_TOOLS.items())
                + " Left out: the project's default."
            ),
            also="--method",
        ),
    ] = "graph"
    top_k: Annotated[
        int,
        RECORDS,
        Description(
            help="Entities and relationships to show.",
            page=(
                "how many entities and relationships are shown; [text"
                " units](#text-units-of-what-was-found) may belong to further ones"
            ),
            tool="How many entities and relationships to show.",
        ),
    ] = 10
    chunk_top_k: Annotated[
        int,
        RECORDS,
        Description(
            help="Text units to show.",
            page="how many text units are shown",
            tool="How many passages to consider.",
        ),
    ] = 10
    max_entity_tokens: Annotated[
        int,
        TOKENS,
        Description(
            help="Budget of the table of entities.",
            page="the most tokens that the table of entities may have",
        ),
    ] = 6000
    max_relation_tokens: Annotated[
        int,
        TOKENS,
        Description(
            help="Budget of the table of relationships.",
            page="the most tokens that the table of relationships may have",
        ),
    ] = 8000
    max_total_tokens: Annotated[
        int,
        TOKENS,
        Description(
            help="Budget of the whole prompt.",
            page="budget of the whole prompt; [how it is shared](#the-budget-of-a-prompt)",
            tool=(
                "The most tokens that the text and the project's own prompt for answers, some 500,"
                " may take together. The structured result, some 60 a passage, comes on top. Left"
                f" out: {TOOL_TOKENS:,}."
            ),
        ),
    ] = 30000
    history_turns: Annotated[
        int,
        Limits(ge=0, le=1000),
        Description(
            help="Questions of the conversation to keep.",
            page=(
                "how many questions of the conversation are kept, with their answers; the oldest"
                " are cut first, and `notes` tells how many (in `bypass` none)"
            ),
        ),
    ] = 10
    history_share: Annotated[
        float,
        SHARE,
        Description(
            help="Part of the prompt for the conversation.",
            page="the most that the kept conversation may take of `max_total_tokens`",
        ),
    ] = 0.25
    kg_chunk_pick_method: Annotated[
        ChunkPick,
        Description(
            help="How to choose text units of found records: RELATION, WEIGHT or VECTOR.",
            page=(
                "[which text units](#text-units-of-what-was-found) stand for entities and"
                " relationships: `RELATION`, `WEIGHT` or `VECTOR`"
            ),
        ),
    ] = "RELATION"
    related_chunk_number: Annotated[
        int,
        RECORDS,
        Description(
            help="Text units of each record, by WEIGHT or VECTOR.",
            page=(
                "by `WEIGHT` at most this many text units stand for each record, by `VECTOR` half"
                " as many on average"
            ),
        ),
    ] = 5
    relationship_order: Annotated[
        RelationshipOrder,
        Description(
            help="Order of relationships: question or rank.",
            page=(
                "`question`: relationships by their similarity to the question, in `local` those"
                " of the best entity first. `rank`: by the degrees of their ends"
            ),
            metavar="ORDER",
        ),
    ] = "question"
    number_rows: Annotated[
        bool,
        Description(
            help="Number the rows of entities and relationships.",
            page=(
                "entities and relationships are shown with numbers, as in LightRAG's tables; an"
                " answer cannot cite them. In `context: graphrag` and `drift` they always have"
                " numbers"
            ),
            off="--no-row-numbers",
        ),
    ] = False
    min_score: Annotated[
        float,
        SHARE,
        Description(
            help="No answer below this similarity.",
            page=(
                "a question whose best text unit is less similar than this gets no answer; 0"
                " answers any ([a good value](#a-good-least-score))"
            ),
        ),
    ] = 0.0
    response_type: Annotated[
        str,
        Limits(min_length=1),
        Description(
            help="The form of the answer, in words.",
            page="the form of the answer, in words; any but the default is quoted as a preference",
        ),
    ] = "Multiple Paragraphs"
    language: Annotated[
        str,
        Description(
            help="Language of the answer; default: the question's.",
            page="the language of the answer; by default that of the question",
        ),
    ] = ""
    user_prompt: Annotated[
        str,
        Description(
            help="A wish added to the prompt.",
            page="a wish about style; it is quoted as a preference in the user's message",
        ),
    ] = ""
    system_prompt: Annotated[
        str,
        Description(
            help="A prompt instead of the project's.",
            page=(
                "a prompt instead of the project's; may use `$response_type`, `$user_prompt`,"
                " `$language`; the context is in the user's message"
            ),
        ),
    ] = ""
    model: Annotated[
        str,
        Description(
            help="Which of models.chat answers.",
            page="which of `models.chat` answers",
        ),
    ] = "default"
    only_need_context: Annotated[
        bool,
        Description(
            help="Show the evidence alone.",
            page="stop before the answer; the result is the evidence",
            also="--context-only",
            off="--no-context-only",
        ),
    ] = False
    only_need_prompt: Annotated[
        bool,
        Description(
            help="Show the prompt alone.",
            page="stop before the answer; the result is the prompt",
            also="--prompt-only",
            off="--no-prompt-only",
        ),
    ] = False
    enable_rerank: Annotated[
        bool,
        Description(
            help="Use the reranker.",
            page=(
                "a reranker of `models.rerank` chooses among three times as many text units; with"
                " `order: fused` [both orders count](rerank.md#how-its-order-is-used)"
            ),
            off="--no-rerank",
        ),
    ] = True
    prefer: Annotated[
        Preference,
        Description(
            help="relevance, or newest: newer versions first.",
            page=(
                "`newest`: of documents with the same title the newer comes first;"
                " [versions](query-words.md#versions-of-a-document)"
            ),
        ),
    ] = "relevance"
    shown_metadata: Annotated[
        str,
        Description(
            help="Metadata that the list of references shows.",
            page=(
                "names of metadata, separated by commas, that the model is shown of each document,"
                " beside its title and source"
            ),
            metavar="A,B",
        ),
    ] = "date, version, status"
    include_references: Annotated[
        bool,
        Description(
            help="List the passages shown.",
            page="list the passages that were shown",
            off="--no-references",
        ),
    ] = True
    include_chunk_content: Annotated[
        bool,
        Description(
            help="List passages with their text.",
            page="list them with their text",
            off="--no-chunk-content",
        ),
    ] = False
    stream: Annotated[
        bool,
        Description(
            help="Print the answer as it comes.",
            page=(
                "streams give the text piece by piece; else in one piece, and the model is asked"
                " for the whole answer at once"
            ),
        ),
    ] = True
    community_level: Annotated[
        int,
        Limits(ge=0, le=100),
        Description(
            help="Level of the reports, 0 the coarsest.",
            page=(
                "reports of this level are read, and those above it without children; 0 is the"
                " coarsest. Higher: more detailed reports, more calls"
            ),
        ),
    ] = 2
    dynamic_community_selection: Annotated[
        bool,
        Description(
            help="The model picks reports.",
            page=(
                "`community`: the model rates reports from level 0 down;"
                " [reports](query-reports.md#community)"
            ),
            off="--static-community-selection",
        ),
    ] = False
    context: Annotated[
        ContextKind,
        Description(
            help="Context of mode local: plain, or graphrag with reports and claims.",
            page=(
                "`graphrag`: mode `local` shows"
                " [reports and claims too](query-reports.md#local-with-reports). No effect on other"
                " modes"
            ),
            metavar="KIND",
        ),
    ] = "plain"
    community_prop: Annotated[
        float,
        SHARE,
        Description(
            help="Part of a graphrag context for reports.",
            page=(
                "`context: graphrag` and `drift`: the [share](#the-budget-of-a-prompt) of the"
                " context for reports"
            ),
        ),
    ] = 0.15
    text_unit_prop: Annotated[
        float,
        SHARE,
        Description(
            help="Part of a graphrag context for text units.",
            page="`context: graphrag` and `drift`: the share of the context for text units",
        ),
    ] = 0.5
    max_map_tokens: Annotated[
        int,
        TOKENS,
        Description(
            help="Evidence in each call before the last.",
            page=(
                "`community`, `drift`: tokens of evidence in each call before the last;"
                " `max_total_tokens` bounds every prompt as well"
            ),
        ),
    ] = 12000
    max_calls: Annotated[
        int,
        Limits(ge=2, le=1000),
        Description(
            help="Calls that community and drift may make.",
            page=(
                "`community`, `drift`: calls of the chat model for one question, the last one"
                " included; at least 2"
            ),
        ),
    ] = 100
    primer_reports: Annotated[
        int,
        RECORDS,
        Description(
            help="Reports that drift begins with.",
            page="`drift`: how many reports it begins with",
        ),
    ] = 20
    primer_folds: Annotated[
        int,
        CALLS,
        Description(
            help="Calls that read the first reports of drift.",
            page="`drift`: how many calls read these reports, each a part of them",
        ),
    ] = 5
    drift_k_followups: Annotated[
        int,
        CALLS,
        Description(
            help="Questions that drift follows in a round.",
            page="`drift`: local searches in a round",
        ),
    ] = 5
    n_depth: Annotated[
        int,
        Limits(ge=0, le=10),
        Description(
            help="Rounds of drift.",
            page="`drift`: rounds; 0 rounds: the reports alone",
        ),
    ] = 2
    general_knowledge: Annotated[
        bool,
        Description(
            help="The model may add its own knowledge, marked.",
            page=(
                "the answer may hold what the model knows itself, in sentences marked"
                " `[LLM: verify]`; not where nothing was found, nor in `bypass` without a"
                " `system_prompt`"
            ),
        ),
    ] = False


class RequestFields:
    """The options of a query that have no default in settings.yaml.

    The types are those of a tool's parameters. ``QueryRequest`` checks the values more closely.
    """

    query: Annotated[
        str,
        Limits(min_length=1),
        Description(
            help="The question, in any language.",
            page="the question: at least one letter or digit",
            tool="The question, a whole sentence in any language.",
            metavar="QUESTION",
        ),
    ]
    hl_keywords: Annotated[
        list[str],
        Description(
            help="Themes to search for.",
            page="themes to search for, instead of asking the model for keywords",
            tool="Themes to look for, instead of those found in the question.",
            metavar="A,B",
        ),
    ]
    ll_keywords: Annotated[
        list[str],
        Description(
            help="Names to search for.",
            page="names to search for, instead of asking the model for keywords",
            tool="Names to look for, instead of those found in the question.",
            metavar="A,B",
        ),
    ]
    conversation_history: Annotated[
        list[dict[str, str]],
        Description(
            help='JSON: [{"role": "user", "content": "..."}, ...]',
            page=(
                'turns `{"role": "user", "content": "..."}` before the question; the model sees'
                " the last of them, and the search follows them. On the command line a JSON file"
            ),
            metavar="FILE",
        ),
    ]
    where: Annotated[
        dict[str, Any],
        Description(
            help="Only documents with this metadata; also < <= > >= !=, in, matches, exists.",
            page=(
                "only documents with these metadata, or with a value of a property;"
                " [filters](query-filters.md)"
            ),
            tool=(
                "Only documents whose metadata satisfy all of these conditions: field to a value,"
                " a list of which any will do, or operators (=, !=, <, <=, >, >=, in, not in,"
                ' matches, exists), as {"year": {">=": 1900}}. The field entity.NAME is a'
                " property of things that the texts of a document tell of."
            ),
            metavar="KEY=VALUE",
        ),
    ]


@dataclass(frozen=True)
class Option:
    """An option as its field defines it. ``default`` is None for a field of ``RequestFields``."""

    name: str
    type: Any
    default: Any
    limits: Limits
    description: Description

    @property
    def plain_type(self) -> Any:
        """The type without its choices: str for a Literal."""
        return str if get_origin(self.type) is Literal else self.type


def list_options(fields: type) -> dict[str, Option]:
    """Return the options that a class of annotated fields defines, by name."""
    options = {}
    for name, hint in get_type_hints(fields, include_extras=True).items():
        type_, *metadata = get_args(hint)
        # Each field has exactly one.
        [description] = [part for part in metadata if isinstance(part, Description)]
        limits = [part for part in metadata if isinstance(part, Limits)]
        options[name] = Option(
            name=name,
            type=type_,
            default=getattr(fields, name, None),
            limits=limits[0] if limits else Limits(),
            description=description,
        )
    return options


QUERY_OPTIONS = list_options(QueryFields)
REQUEST_OPTIONS = list_options(RequestFields)
