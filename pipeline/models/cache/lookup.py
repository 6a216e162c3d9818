"""What is known of replies and vectors already, by keys over all that is asked: what models do
before they call."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import numpy as np

from pipeline.models.base import Anew, ChatReply, ChatRequest, Check, RowsToAskAgain
from pipeline.models.cache.cut_prompts import tokens_of_cut_text
from pipeline.models.cache.replies import Completion, ReplyCache


def completion_key(identity: Mapping[str, Any], request: ChatRequest) -> str:
    """Over the model's identity, all of the request that is sent (not its ``row_id``), and whose it
    is."""
    whose = [request.asker] if request.asker else []
    return _key(
        "completion", identity, [list(map(dict, request.messages)), request.response_format, *whose]
    )


def embedding_key(identity: Mapping[str, Any], text: str) -> str:
    return _key("embedding", identity, text)


def _key(kind: str, identity: Mapping[str, Any], asked: object) -> str:
    canonical = json.dumps(
        [kind, identity, asked], sort_keys=True, separators=(",", ":"), default=dict
    )
    return hashlib.sha256(canonical.encode()).hexdigest()


@dataclass
class RememberedReplies:
    """The Memory of one chat model.

    It serves replies that can be read, bad ones that have been mended, and those that nobody has
    read yet. Bad replies of the rows in ``anew`` are asked for again.
    """

    model: str
    identity: Mapping[str, Any]
    cache: ReplyCache
    anew: Anew | None = None
    flags: dict[str, bool | None] = field(default_factory=dict)
    mended: dict[str, Completion] = field(default_factory=dict)
    found_under: dict[str, str] = field(default_factory=dict)
    """Key of a request -> the key of its earlier form, where that form has the reply."""
    lengths: dict[str, int] = field(default_factory=dict)
    """Key of a request that is asked again -> tokens of its stored reply, if that reply was
    whole."""

    def key(self, request: ChatRequest) -> str:
        return completion_key(self.identity, request)

    def with_room(self, key: str, request: ChatRequest) -> ChatRequest:
        """Return the request with a limit that its stored reply, which is of no use now, would have
        kept to."""
        if request.max_tokens is None or self.lengths.get(key, 0) <= request.max_tokens:
            return request
        return replace(request, max_tokens=self.lengths[key])

    def keys(self, request: ChatRequest) -> tuple[str, ...]:
        """Return every key under which a reply to the request may be stored: its own, then those of
        earlier forms."""
        return tuple(map(self.key, (request, *request.earlier)))

    def read(self, completion: Completion, request: ChatRequest) -> ChatReply:
        """Return the reply to a request, judged by the request's check and by how much of its text
        was read."""
        reply = read(completion, request.check, limited=request.max_tokens is not None)
        if reply.reason:
            return reply
        tokens = tokens_of_cut_text(request.text, completion.input_tokens)
        if tokens is None:
            return reply
        message = (
            f"the endpoint counted {completion.input_tokens:,} tokens of a prompt whose text alone"
            f" has about {tokens:,}: the model has read only a part of the text"
        )
        return replace(reply, message=message, prompt_cut=True)

    def _earlier(self, request: ChatRequest) -> dict[str, ChatRequest]:
        """Return the earlier forms of a request by their keys."""
        return {self.key(form): form for form in request.earlier}

    def recall(self, requests: Mapping[str, ChatRequest]) -> dict[str, ChatReply]:
        """Return the known replies that may be served, by the key of the request.

        They are read again, because the parser may have changed since. The earlier forms of a
        request are looked up in the same query.
        """
        forms = {key: {key: request, **self._earlier(request)} for key, request in requests.items()}
        stored = self.cache.completions(chain.from_iterable(forms.values()))
        served = {}
        for key, candidates in forms.items():
            for candidate, form in candidates.items():
                reply = (
                    self._served(key, candidate, stored[candidate], form)
                    if candidate in stored
                    else None
                )
                if reply is not None:
                    served[key] = reply
                    break
        return served

    def _served(
        self, key: str, stored_under: str, completion: Completion, request: ChatRequest
    ) -> ChatReply | None:
        """Return the reply as it is served, or None where it may not be; note what storing and
        flagging need.

        ``request``: in the form in which it is stored; an endpoint counted the tokens of that
        form."""
        reply = self.read(completion, request)
        if self._servable(reply, completion, request):
            if stored_under != key:
                self.found_under[key] = stored_under
            self.flags[key] = completion.valid
            return replace(reply, cached=True)
        if completion.finish_reason != "length":
            self.lengths[key] = 2 * completion.output_tokens  # the next reply may well be longer
        if completion.valid:
            self.mended[key] = completion
        return None

    def _servable(self, reply: ChatReply, completion: Completion, request: ChatRequest) -> bool:
        if reply.good:
            # A reply that nobody has read yet may be the very one that was asked for its end.
            read_before = completion.valid is not None
            usable = bool(request.check) or completion.valid is not False
            return usable and not (read_before and not self._is_whole(reply, request))
        asked_anew = self.anew is not None and self.anew(request.row_id)
        return completion.valid is None or (completion.valid and not asked_anew)

    def store(self, key: str, completion: Completion, request: ChatRequest) -> None:
        """Keep the reply, unless it is no better than a mended one, or one without an end mark,
        that it was to replace."""
        if key in self.mended and not self._is_whole(self.read(completion, request), request):
            return
        self.cache.store_completion(key, self.model, completion)
        self.found_under.pop(key, None)
        self.flags[key] = None

    def _is_whole(self, reply: ChatReply, request: ChatRequest) -> bool:
        """Check that a reply is good and, if its row is asked again for that, that it has its end
        mark."""
        asked_for_its_end = (
            isinstance(self.anew, RowsToAskAgain) and request.row_id in self.anew.unended
        )
        lacks_end = (
            asked_for_its_end and request.lacks_end is not None and request.lacks_end(reply.text)
        )
        return reply.good and not lacks_end

    def better(self, key: str, request: ChatRequest, fresh: ChatReply) -> ChatReply:
        """Return the fresh reply or, if it is of no use, the one that it was to replace: what
        mended that one is known, so a row that could be read stays readable."""
        mended = self.mended.pop(key, None)
        if mended is None or self._is_whole(fresh, request):
            return fresh
        self.cache.store_completion(
            key, self.model, mended
        )  # a batch's replies are stored before they are read
        self.flags[key] = mended.valid
        return replace(self.read(mended, request), cached=True)

    def flag(self, valid: Mapping[str, bool]) -> None:
        """Failed calls have left nothing to be flagged, and what is flagged so already stays."""
        changed = {
            key: flag
            for key, flag in valid.items()
            if key in self.flags and self.flags[key] is not flag
        }
        self.cache.flag({self.found_under.get(key, key): flag for key, flag in changed.items()})
        self.flags |= changed

    def forget(self, keys: Iterable[str]) -> None:
        """Replies that could be read, each by itself, and are of no use all the same."""
        self.cache.forget(keys)


def read(completion: Completion, check: Check | None, limited: bool = False) -> ChatReply:
    """Return the reply, with a reason if nothing was said; ``message`` is why, or ``check``'s
    objection."""
    reason, message = None, ""
    if completion.finish_reason == "content_filter":
        reason, message = "content_filter", "the endpoint's content filter stopped the reply"
    elif completion.finish_reason == "refusal":
        reason, message = "refusal", f"the model refused: {completion.text}"
    elif not completion.text.strip():
        cut = " (cut at the output limit)" if completion.finish_reason == "length" else ""
        reason, message = "empty", f"the reply has no text{cut}"
    elif (check or limited) and completion.finish_reason == "length":
        message = "the reply was cut off at the output limit"
    elif check:
        message = check(completion.text) or ""
    tokens = (completion.input_tokens, completion.output_tokens)
    return ChatReply(completion.text, completion.finish_reason, reason, message, *tokens)


@dataclass(frozen=True)
class RecalledVectors:
    """The vectors known of some texts. ``missing``: key -> text, each text once; blank texts have
    no key."""

    keys: Sequence[str | None]
    known: dict[str, np.ndarray]
    missing: Mapping[str, str]

    def stack(self, dimensions: int) -> np.ndarray:
        """One row a text, zeros where it is blank."""
        rows = np.zeros((len(self.keys), dimensions), dtype=np.float32)
        for row, key in zip(rows, self.keys, strict=True):
            if key is not None:
                row[:] = self.known[key]
        return rows


def recall_vectors(
    cache: ReplyCache, identity: Mapping[str, Any], texts: Sequence[str]
) -> RecalledVectors:
    keys = [embedding_key(identity, text) if text.strip() else None for text in texts]
    asked = {key: text for key, text in zip(keys, texts, strict=True) if key is not None}
    known = cache.vectors(asked)
    return RecalledVectors(
        keys, known, {key: text for key, text in asked.items() if key not in known}
    )


def embedding_keys(identity: Mapping[str, Any], texts: Sequence[str]) -> set[str]:
    return {embedding_key(identity, text) for text in texts if text.strip()}


def unknown_texts(
    cache: ReplyCache, identity: Mapping[str, Any], texts: Sequence[str]
) -> dict[str, str]:
    """key -> text of those without a vector, each once; blank texts need none."""
    asked = {embedding_key(identity, text): text for text in texts if text.strip()}
    known = cache.known_vectors(asked)
    return {key: text for key, text in asked.items() if key not in known}
