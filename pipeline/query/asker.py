"""Who asks, and what they may ask for."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, get_args

from pipeline.contract.conditions import Conditions
from pipeline.errors import NotAllowedError, UsageError
from pipeline.models.base import Tokenizer
from pipeline.query.request import QueryRequest, request_of
from pipeline.settings.query_fields import GRAPH_MODES, PASSAGE_MODES, Mode
from pipeline.settings.query_options import QuerySettings

RECORDS = ("top_k", "chunk_top_k", "related_chunk_number", "primer_reports")
"""Options that say how much is read."""
MADE_OF_ALL = (
    "who asks sees some documents only, and the graph and its ranks are made of all documents"
)


@dataclass(frozen=True)
class Asker:
    """``name``: by which usage knows them; "" is the command line and scripts. None: no ceiling.
    ``models``: of models.chat; ``max_records``: of each of ``RECORDS``.

    ``where``: conditions of the documents that they may see anything of; those of a request narrow
    them. With such conditions only modes that read passages alone can be asked, whatever ``modes``
    has. ``apart``: what a model has answered them is served to nobody else. ``all_told``: they may
    be told how the project is run and what is wrong with it, which names hosts and folders.
    ``cost_per_day``: of all that goes by their name; ``shared_cost_per_day``: of all askers that
    have a name.
    """

    name: str = ""
    modes: tuple[Mode, ...] | None = None
    models: tuple[str, ...] | None = None
    system_prompt: bool = True
    max_records: int | None = None
    max_prompt_tokens: int | None = None
    max_calls: int | None = None
    cost_per_day: float | None = None
    shared_cost_per_day: float | None = None
    where: Conditions = field(default_factory=dict)
    apart: bool = False
    all_told: bool = True

    def may_ask(self, mode: Mode) -> bool:
        """Return whether they may ask in this mode."""
        named = self.modes is None or mode in self.modes
        return named and (not self.where or mode not in GRAPH_MODES)

    def usual_mode(self, default: Mode) -> Mode:
        """Return the mode of a question that names none; ``default``: that of the project.

        Who sees some documents only gets the first passage mode that they may ask, where they may
        not ask the default.
        """
        if self.where and not self.may_ask(default):
            for mode in PASSAGE_MODES:
                if self.may_ask(mode):
                    return mode
        return default


ANYONE = Asker()
"""Who runs the project."""


def request_for(
    asker: Asker,
    question: Any,
    defaults: QuerySettings,
    options: Mapping[str, Any],
    tokenizer: Tokenizer,
) -> QueryRequest:
    """The request as ``request_of`` makes it, within what the asker may: of what they do not ask
    for they get less where the default is more. Raises NotAllowedError for what they ask for and
    may not."""
    if asker == ANYONE:
        return request_of(question, defaults, options)
    ceilings = {"max_total_tokens": asker.max_prompt_tokens, "max_calls": asker.max_calls}
    ceilings |= dict.fromkeys(RECORDS, asker.max_records)
    lowered = {
        name: min(most, getattr(defaults, name))
        for name, most in ceilings.items()
        if most is not None
    }
    usual = {**lowered, "mode": asker.usual_mode(defaults.mode)}
    request = request_of(question, defaults.model_copy(update=usual), options)
    _refuse_mode(asker, request.mode)
    if asker.models is not None and request.model not in asker.models:
        raise _refused(
            f"model '{request.model}'", f"ask with one of: {', '.join(asker.models) or 'none'}"
        )
    if not asker.system_prompt and request.system_prompt != defaults.system_prompt:
        raise _refused("a system_prompt", "leave it out; a wish goes into user_prompt")
    for name, most in ceilings.items():
        if most is not None and getattr(request, name) > most:
            raise _refused(f"{name}: {getattr(request, name):,}", f"ask for at most {most:,}")
    _refuse_long(asker, request, tokenizer)
    return request


def refuse_graph(asker: Asker | None) -> None:
    """Raise NotAllowedError for one who sees some documents only."""
    if asker is not None and asker.where:
        raise NotAllowedError(
            f"the graph is not shown here: {MADE_OF_ALL}; ask a question, or look at the documents"
        )


def _refuse_mode(asker: Asker, mode: Mode) -> None:
    if asker.may_ask(mode):
        return
    modes = [one for one in asker.modes or get_args(Mode) if asker.may_ask(one)]
    reason = f", for {MADE_OF_ALL}" if asker.where and mode in GRAPH_MODES else ""
    raise _refused(f"mode '{mode}'", f"ask with one of: {', '.join(modes) or 'none'}", reason)


def _refuse_long(asker: Asker, request: QueryRequest, tokenizer: Tokenizer) -> None:
    """What is sent goes into the prompt whole, but for the conversation, which only ``bypass`` does
    not cut."""
    if asker.max_prompt_tokens is None:
        return
    turns = request.conversation_history if request.mode == "bypass" else ()
    texts = [request.query, request.user_prompt, request.system_prompt, request.response_type, request.language,  # noqa: E501
             *request.hl_keywords, *request.ll_keywords,
             *(turn.content for turn in turns)]  # fmt: skip
    tokens = sum(map(tokenizer.count, texts))
    if tokens > asker.max_prompt_tokens:
        raise _refused(
            f"a request of {tokens:,} tokens",
            f"shorten it to less than {asker.max_prompt_tokens:,}",
        )


def _refused(what: str, action: str, reason: str = "") -> UsageError:
    return NotAllowedError(f"query: {what} is not allowed here{reason}; {action}")
