"""The caller of a query, and the limits of what they may ask for."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, get_args

from pipeline.contract.conditions import Conditions
from pipeline.errors import NotAllowedError, UsageError
from pipeline.models.base import Tokenizer
from pipeline.query.request import QueryRequest, build_request
from pipeline.settings.query_fields import PASSAGE_MODES, SHARED_DATA_MODES, Mode
from pipeline.settings.query_options import QuerySettings

RECORDS = ("top_k", "chunk_top_k", "related_chunk_number", "primer_reports")
"""Options that say how many records are read; ``Caller.max_records`` limits each."""
MADE_OF_ALL = (
    "who asks sees some documents only, and the graph and its ranks are made of all documents"
)


@dataclass(frozen=True)
class Caller:
    """A caller and their limits; a limit of None means no limit.

    ``name``: the name in usage records; "" stands for the command line and scripts. ``modes`` and
    ``models``: the query modes and the names in models.chat that the caller may use.
    ``max_records``: limit of each option in ``RECORDS``.

    ``where``: conditions of the documents that the caller may see; the conditions of a request
    narrow them further. A caller with such conditions may use only modes that read nothing but
    passages, whatever ``modes`` says. ``apart``: what the cache has of a model for this caller is
    served to nobody else, and what it has for others not to this caller. ``sees_internals``: the
    caller may see messages on the operation of the project, which name hosts and folders.
    ``cost_per_day``: limit on the cost of all calls under the name; ``shared_cost_per_day``: limit
    on the cost of all callers that have a name.
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
    sees_internals: bool = True

    def may_ask(self, mode: Mode) -> bool:
        """Return whether the caller may use this mode."""
        named = self.modes is None or mode in self.modes
        return named and (not self.where or mode not in SHARED_DATA_MODES)

    def usual_mode(self, default: Mode) -> Mode:
        """Return the mode for a question that names none; ``default`` is the project's mode.

        A restricted caller who may not use the default gets the first passage mode they may use.
        """
        if self.where and not self.may_ask(default):
            for mode in PASSAGE_MODES:
                if self.may_ask(mode):
                    return mode
        return default


ANYONE = Caller()
"""The operator of the project, who has no limits."""


def build_allowed_request(
    caller: Caller,
    question: Any,
    defaults: QuerySettings,
    options: Mapping[str, Any],
    tokenizer: Tokenizer,
) -> QueryRequest:
    """Return the request of ``build_request`` within the caller's limits.

    A default above a limit is lowered to the limit. Raises NotAllowedError if the caller asks for
    something that their limits exclude, and UsageError for invalid options.
    """
    if caller == ANYONE:
        return build_request(question, defaults, options)
    ceilings = {"max_total_tokens": caller.max_prompt_tokens, "max_calls": caller.max_calls}
    ceilings |= dict.fromkeys(RECORDS, caller.max_records)
    changes: dict[str, Any] = {
        name: min(most, getattr(defaults, name))
        for name, most in ceilings.items()
        if most is not None
    }
    changes["mode"] = caller.usual_mode(defaults.mode)
    request = build_request(question, defaults.model_copy(update=changes), options)
    _refuse_mode(caller, request.mode)
    if caller.models is not None and request.model not in caller.models:
        raise _refused(
            f"model '{request.model}'", f"ask with one of: {', '.join(caller.models) or 'none'}"
        )
    if not caller.system_prompt and request.system_prompt != defaults.system_prompt:
        raise _refused("a system_prompt", "leave it out; a wish goes into user_prompt")
    for name, most in ceilings.items():
        if most is not None and getattr(request, name) > most:
            raise _refused(f"{name}: {getattr(request, name):,}", f"ask for at most {most:,}")
    _refuse_long(caller, request, tokenizer)
    return request


def refuse_graph(caller: Caller | None) -> None:
    """Raise NotAllowedError if the caller may see only some documents."""
    if caller is not None and caller.where:
        raise NotAllowedError(
            f"the graph is not shown here: {MADE_OF_ALL}; ask a question, or look at the documents"
        )


def _refuse_mode(caller: Caller, mode: Mode) -> None:
    if caller.may_ask(mode):
        return
    modes = [one for one in caller.modes or get_args(Mode) if caller.may_ask(one)]
    reason = f", for {MADE_OF_ALL}" if caller.where and mode in SHARED_DATA_MODES else ""
    raise _refused(f"mode '{mode}'", f"ask with one of: {', '.join(modes) or 'none'}", reason)


def _refuse_long(caller: Caller, request: QueryRequest, tokenizer: Tokenizer) -> None:
    """Raise NotAllowedError if the texts of the request exceed the caller's prompt tokens.

    The conversation counts only in mode ``bypass``: all other modes shorten it.
    """
    if caller.max_prompt_tokens is None:
        return
    turns = request.conversation_history if request.mode == "bypass" else ()
    texts = [
        request.query,
        request.user_prompt,
        request.system_prompt,
        request.response_type,
        request.language,
        *request.hl_keywords,
        *request.ll_keywords,
        *(turn.content for turn in turns),
    ]
    tokens = sum(map(tokenizer.count, texts))
    if tokens > caller.max_prompt_tokens:
        raise _refused(
            f"a request of {tokens:,} tokens",
            f"shorten it to less than {caller.max_prompt_tokens:,}",
        )


def _refused(what: str, action: str, reason: str = "") -> UsageError:
    return NotAllowedError(f"query: {what} is not allowed here{reason}; {action}")
