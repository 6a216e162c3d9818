"""Lookup of stored replies and vectors. The keys are hashes over everything that is requested."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import numpy as np

from pipeline.models.base import ChatReply, ChatRequest, Check, Repeats, RowsToAskAgain
from pipeline.models.cache.cut_prompts import tokens_of_cut_text
from pipeline.models.cache.replies import Completion, ReplyCache


def completion_key(identity: Mapping[str, Any], request: ChatRequest) -> str:
    """Return the cache key of a chat request.

    It covers the model's identity, the messages, ``response_format``, ``caller`` and the content of
    the picture. The other fields of the request are not part of it.
    """
    messages = [dict(message) for message in request.messages]
    asked: list[object] = [messages, request.response_format]
    if request.caller:
        asked.append(request.caller)
    if request.picture:
        asked.append({"picture": request.picture.digest})
    return _key("completion", identity, asked)


def embedding_key(identity: Mapping[str, Any], text: str) -> str:
    """Return the cache key of the vector of a text."""
    return _key("embedding", identity, text)


def _key(kind: str, identity: Mapping[str, Any], asked: object) -> str:
    canonical = json.dumps(
        [kind, identity, asked], sort_keys=True, separators=(",", ":"), default=dict
    )
    return hashlib.sha256(canonical.encode()).hexdigest()


@dataclass
class RememberedReplies:
    """Memory of one chat model, backed by the cache.

    It serves replies that are valid, bad ones that have been mended, and those that nobody has read
    yet. Bad replies of the rows in ``repeats`` are requested again.

    ``flags``: the stored verdict of each reply in use, by key. ``mended``: the stored replies that
    could be served but are requested again, by key.
    """

    model: str
    identity: Mapping[str, Any]
    cache: ReplyCache
    repeats: Repeats | None = None
    flags: dict[str, bool | None] = field(default_factory=dict)
    mended: dict[str, Completion] = field(default_factory=dict)
    found_under: dict[str, str] = field(default_factory=dict)
    """Maps the key of a request to the key of its earlier form, if that form has the reply."""
    lengths: dict[str, int] = field(default_factory=dict)
    """Maps the key of a request that is made again to twice the tokens of its stored reply, if that
    reply was whole."""

    def key(self, request: ChatRequest) -> str:
        return completion_key(self.identity, request)

    def with_larger_limit(self, key: str, request: ChatRequest) -> ChatRequest:
        """Return the request with a limit that leaves room for its stored reply, which is not used
        now."""
        if request.max_tokens is None or self.lengths.get(key, 0) <= request.max_tokens:
            return request
        return replace(request, max_tokens=self.lengths[key])

    def keys(self, request: ChatRequest) -> tuple[str, ...]:
        """Return every key under which a reply may be stored: the request's own, then those of
        earlier forms."""
        return tuple(map(self.key, (request, *request.earlier)))

    def read(self, completion: Completion, request: ChatRequest) -> ChatReply:
        """Return the stored reply as a ChatReply.

        The request's check judges it, and so does a comparison of the reported tokens with the
        length of the text.
        """
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

        Each reply is checked again, because the parser may have changed since. One database query
        also looks for the earlier forms of the requests.
        """
        forms = {key: {key: request, **self._earlier(request)} for key, request in requests.items()}
        stored = self.cache.completions(chain.from_iterable(forms.values()))
        served = {}
        for key, candidates in forms.items():
            for candidate, form in candidates.items():
                if candidate not in stored:
                    continue
                reply = self._serve(key, candidate, stored[candidate], form)
                if reply is not None:
                    served[key] = reply
                    break
        return served

    def _serve(
        self, key: str, stored_under: str, completion: Completion, request: ChatRequest
    ) -> ChatReply | None:
        """Return the reply to serve, or None if it may not be served.

        ``request`` is the form that was stored, because the endpoint counted the tokens of that
        form. Records what ``store`` and ``flag`` need later.
        """
        reply = self.read(completion, request)
        if self._may_be_served(reply, completion, request):
            if stored_under != key:
                self.found_under[key] = stored_under
            self.flags[key] = completion.valid
            return replace(reply, cached=True)
        if completion.finish_reason != "length":
            # The next reply may be longer than this one.
            self.lengths[key] = 2 * completion.output_tokens
        if completion.valid:
            self.mended[key] = completion
        return None

    def _may_be_served(
        self, reply: ChatReply, completion: Completion, request: ChatRequest
    ) -> bool:
        """Return whether the stored reply may be served."""
        if not reply.good:
            if completion.valid is None:
                return True
            is_requested_again = self.repeats is not None and self.repeats(request.row_id)
            return completion.valid and not is_requested_again
        if completion.valid is None:
            # Nobody has read it yet: it may be the reply to the request for a missing end mark.
            return True
        if completion.valid is False and not request.check:
            return False
        return self._is_whole(reply, request)

    def store(self, key: str, completion: Completion, request: ChatRequest) -> None:
        """Store the reply, unless it is no improvement on the stored one that it was to replace.

        That one is either a bad reply that was mended, or a good one without its end mark.
        """
        if key in self.mended and not self._is_whole(self.read(completion, request), request):
            return
        self.cache.store_completion(key, self.model, completion)
        self.found_under.pop(key, None)
        self.flags[key] = None

    def _is_whole(self, reply: ChatReply, request: ChatRequest) -> bool:
        """Check that the reply is good and has the end mark for which its row is requested again,
        if any."""
        if not reply.good:
            return False
        is_requested_for_its_end = (
            isinstance(self.repeats, RowsToAskAgain) and request.row_id in self.repeats.unended
        )
        if not is_requested_for_its_end or request.lacks_end is None:
            return True
        return not request.lacks_end(reply.text)

    def choose_better(self, key: str, request: ChatRequest, fresh: ChatReply) -> ChatReply:
        """Return the fresh reply, or the stored one that it was to replace if the fresh one is of
        no use.

        The replies that mended the stored one are known, so a row that could be read stays
        readable.
        """
        mended = self.mended.pop(key, None)
        if mended is None or self._is_whole(fresh, request):
            return fresh
        # The replies of a batch are stored before they are read, so the fresh one may be there.
        self.cache.store_completion(key, self.model, mended)
        self.flags[key] = mended.valid
        return replace(self.read(mended, request), cached=True)

    def flag(self, valid: Mapping[str, bool]) -> None:
        """Store the verdicts that changed. Failed calls left no reply, so their keys are
        ignored."""
        changed = {
            key: flag
            for key, flag in valid.items()
            if key in self.flags and self.flags[key] is not flag
        }
        self.cache.flag({self.found_under.get(key, key): flag for key, flag in changed.items()})
        self.flags |= changed

    def forget(self, keys: Iterable[str]) -> None:
        """Delete replies that passed their checks, but turned out to be of no use."""
        self.cache.forget(keys)


def read(completion: Completion, check: Check | None, limited: bool = False) -> ChatReply:
    """Return the stored reply as a ChatReply.

    A reply without text gets a reason, and ``message`` explains it. Otherwise ``message`` is the
    objection of ``check``, or "". ``limited``: the request had a limit, so a reply that reached it
    is bad.
    """
    reason, message = None, ""
    is_cut = completion.finish_reason == "length"
    if completion.finish_reason == "content_filter":
        reason, message = "content_filter", "the endpoint's content filter stopped the reply"
    elif completion.finish_reason == "refusal":
        reason, message = "refusal", f"the model refused: {completion.text}"
    elif not completion.text.strip():
        cut = " (cut at the output limit)" if is_cut else ""
        reason, message = "empty", f"the reply has no text{cut}"
    elif is_cut and (check or limited):
        message = "the reply was cut off at the output limit"
    elif check:
        message = check(completion.text) or ""
    return ChatReply(
        completion.text,
        completion.finish_reason,
        reason,
        message,
        completion.input_tokens,
        completion.output_tokens,
    )


@dataclass(frozen=True)
class RecalledVectors:
    """Known vectors of some texts.

    ``keys``: one key per text in order, None for a blank text. ``known``: the vectors by key.
    ``missing``: the texts without a vector by key, each text once.
    """

    keys: Sequence[str | None]
    known: dict[str, np.ndarray]
    missing: Mapping[str, str]

    def stack(self, dimensions: int) -> np.ndarray:
        """Return one float32 row per text, in order; a blank text has zeros. All vectors must be
        known."""
        rows = np.zeros((len(self.keys), dimensions), dtype=np.float32)
        for row, key in zip(rows, self.keys, strict=True):
            if key is not None:
                row[:] = self.known[key]
        return rows


def recall_vectors(
    cache: ReplyCache, identity: Mapping[str, Any], texts: Sequence[str], caller: str = ""
) -> RecalledVectors:
    """Return the cached vectors of the texts, and which of them are missing.

    An ``caller`` has vectors of its own, which were made for it alone.
    """
    if caller:
        identity = {**identity, "caller": caller}
    keys = [embedding_key(identity, text) if text.strip() else None for text in texts]
    asked = {key: text for key, text in zip(keys, texts, strict=True) if key is not None}
    known = cache.vectors(asked)
    missing = {key: text for key, text in asked.items() if key not in known}
    return RecalledVectors(keys, known, missing)


def embedding_keys(identity: Mapping[str, Any], texts: Sequence[str]) -> set[str]:
    """Return the cache keys of the vectors of all texts that are not blank."""
    return {embedding_key(identity, text) for text in texts if text.strip()}


def unknown_texts(
    cache: ReplyCache, identity: Mapping[str, Any], texts: Sequence[str]
) -> dict[str, str]:
    """Return the texts without a cached vector by key, each text once. Blank texts need no
    vector."""
    asked = {embedding_key(identity, text): text for text in texts if text.strip()}
    known = cache.known_vectors(asked)
    return {key: text for key, text in asked.items() if key not in known}
