"""What is asked of a project whose stores are loaded: answers, their evidence, next questions,
evaluations.

What a method does is imported by it: a search needs no chat model's library, a question no
evaluation.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from pipeline.errors import NothingLoadedError, OtherVectorsError, UsageError
from pipeline.files import SETTINGS
from pipeline.models.conversations import made_once
from pipeline.runs.services import DEFAULT, Services
from pipeline.stores.base import Advanced, silent

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence

    from pipeline.evaluation.questions import Questions
    from pipeline.evaluation.results import Evaluation
    from pipeline.models.base import ChatModel, EmbeddingModel
    from pipeline.models.measured import Measured
    from pipeline.query.account import AccountedEmbedding
    from pipeline.query.answer import Answer
    from pipeline.query.asker import Asker
    from pipeline.query.drawing import Drawing, Named
    from pipeline.query.request import QueryRequest
    from pipeline.query.resources import QueryResources
    from pipeline.query.stream import Event, NextQuestions
    from pipeline.stores.base import Live
    from pipeline.stores.connection import Result, Work
    from pipeline.stores.reads import GraphReads, GraphStore, VectorReads, VectorStore
    from pipeline.stores.records import Dot

MOST_QUESTIONS = 50
TOLD_FILE = "data/told-default-mode"


@dataclass(frozen=True)
class Shown:
    """What a workspace shows, the model that made its vectors, and what is to be said of whose it
    is."""

    live: Live
    embedding: EmbeddingModel
    notes: tuple[str, ...]


@dataclass
class LastShown:
    """What the last question saw: the next is embedded as that was, without asking the stores
    first."""

    find: Callable[[Live | None], Shown]
    shown: Shown | None = None

    def at(self, live: Live | None) -> Shown:
        shown = self.shown  # another thread's question may see something else meanwhile
        if shown is None or shown.live != live:
            self.shown = shown = self.find(live)
        return shown


@dataclass
class LastOpening:
    """What the graph opens with, and the load that it is of: one value, as threads ask for it side
    by side."""

    known: tuple[str, Drawing] | None = None

    def of(self, version: str, draw: Callable[[], Drawing]) -> Drawing:
        """``version``: of the load that is shown; what is drawn after asking for it is no older."""
        known = self.known
        if known is None or known[0] != version:
            self.known = known = (version, draw())
        return known[1]


class Asking(Services):
    def query(self, question: str, asker: Asker | None = None, **options: Any) -> Answer:
        """Answer a question over the loaded stores; ``options`` are QueryRequest's. ``asker``: who
        asks, by default one who may ask for all.

        Raises UsageError for options that make no sense, StoreError and ModelError when the
        services fail.
        """
        from pipeline.query.answer import answer

        request = self.request(question, asker, **options)
        return answer(request, self._resources_of(request, asker, options))

    def query_stream(
        self, question: str, asker: Asker | None = None, **options: Any
    ) -> Iterator[Event]:
        """Sources first, then the answer's text in pieces, then the whole; or what went wrong on
        the way.

        Raises UsageError for options that make no sense; the first question of all also StoreError
        when the stores do not answer.
        """
        from pipeline.query.stream import stream_answer

        request = self.request(question, asker, **options)
        return stream_answer(request, self._resources_of(request, asker, options))

    def may_ask_chat(self, options: Mapping[str, Any]) -> bool:
        """Return whether a question with these options may ask a chat model; that it surely asks
        one is not said."""
        from pipeline.query.search.modes import may_ask_chat

        given = {name: value for name, value in options.items() if value is not None}
        asked = {**self.settings.query.options, **given}
        chat = self.settings.models.chat.get(asked["model"])
        return chat is not None and chat.configured and may_ask_chat(asked)

    def query_data(
        self, question: str, asker: Asker | None = None, **options: Any
    ) -> dict[str, Any]:
        """What was found, structured, with no model call for an answer."""
        return self.query(question, asker, **{**options, "only_need_context": True}).data_json()

    def read(
        self, work: Callable[[VectorReads, GraphReads], Result], asker: Asker | None = None
    ) -> Result:
        """What ``work`` finds in the stores, all of it at one moment, of what the asker may see of
        them."""
        return self.query_resources("read", asker).read(work)[0]

    def draw(self, named: Named, asker: Asker | None = None) -> Drawing:
        """Return a part of the graph. What it opens with takes going through all of it, and is
        remembered while that is shown.

        Raises NotAllowedError for an asker who sees some documents only.
        """
        from pipeline.query.asker import refuse_graph
        from pipeline.query.drawing import Named, draw

        refuse_graph(asker)
        if named != Named(limit=named.limit):
            return self.read(partial(draw, named), asker)
        live = self.stores.live()
        return self._opening.of(
            live.version if live else "", lambda: self.read(partial(draw, named), asker)
        )

    @made_once
    def _opening(self) -> LastOpening:
        return LastOpening()

    def find_entities(
        self, text: str, meaning: bool, limit: int, asker: Asker | None = None
    ) -> list[Dot]:
        """Return the entities that are called so, or whose name and description mean nearly this,
        best first.

        Raises NotAllowedError for an asker who sees some documents only.
        """
        from pipeline.query.asker import refuse_graph
        from pipeline.query.drawing import find_by_meaning, find_by_name

        refuse_graph(asker)
        resources = self.query_resources("find", asker)
        if not meaning:
            return resources.read(lambda vectors, graph: find_by_name(text, limit, graph))[0]
        [vector] = resources.embedding.embed([text])
        return resources.read(
            lambda vectors, graph: find_by_meaning(vector, limit, vectors, graph)
        )[0]

    def questions(
        self, question: str, number: int = 5, asker: Asker | None = None, **options: Any
    ) -> NextQuestions:
        """What could be asked next, after this question and ``conversation_history``; ``options``
        are QueryRequest's.

        Raises UsageError also without a chat model, ModelError where it gives none.
        """
        from pipeline.query.stream import next_questions

        if not 1 <= number <= MOST_QUESTIONS:
            raise UsageError(f"questions: number: {number}; ask for 1 to {MOST_QUESTIONS}")
        request = self.request(question, asker, **options)
        return next_questions(request, number, self.query_resources(request.mode, asker))

    async def aquery(self, question: str, asker: Asker | None = None, **options: Any) -> Answer:
        from asyncio import to_thread

        return await to_thread(self.query, question, asker, **options)

    async def aquery_data(
        self, question: str, asker: Asker | None = None, **options: Any
    ) -> dict[str, Any]:
        from asyncio import to_thread

        return await to_thread(self.query_data, question, asker, **options)

    async def aquery_stream(
        self, question: str, asker: Asker | None = None, **options: Any
    ) -> AsyncIterator[Event]:
        from asyncio import to_thread

        events = await to_thread(self.query_stream, question, asker, **options)
        while (event := await to_thread(next, events, None)) is not None:
            yield event

    def evaluate(
        self, questions: Questions, modes: Sequence[str] | None = None,
        ks: Sequence[int] | None = None,
        budget: int | None = None, by: str = "type", keywords: bool = False, rerank: bool = False,
        advanced: Advanced = silent,
    ) -> Evaluation:  # fmt: skip
        """What each mode, by default any that retrieves, finds of the questions' gold
        (docs/evaluation.md). No chat model and no reranker is asked, unless ``keywords`` and
        ``rerank`` say so. Raises UsageError for questions that cannot be read, and as ``query``.
        """
        from pipeline.evaluation.evaluate import SearchTarget, evaluate
        from pipeline.evaluation.questions import read_questions
        from pipeline.evaluation.results import Setup

        setup = Setup.of(modes, ks, budget, by, keywords, rerank)
        searched = SearchTarget(
            self._data_of_any_size,
            self.query_resources("evaluate"),
            self.stores.vectors,
            self.settings.query,
        )
        return evaluate(read_questions(questions, by), setup, searched, advanced)

    def _data_of_any_size(self, question: str, **options: Any) -> dict[str, Any]:
        """As ``query_data``, also where the prompt is larger than the chat model reads: it is
        measured, not sent."""
        from pipeline.query.answer import answer

        request = self.request(question, **{**options, "only_need_context": True})
        resources = self._resources_of(request, None, options)
        found = answer(
            request,
            replace(resources, measured=lambda name: replace(self._measured(name), window=None)),
        )
        return found.to_json()

    def request(self, question: str, asker: Asker | None = None, **options: Any) -> QueryRequest:
        """The request with the project's defaults for what is not given (None counts as not given).

        Raises UsageError for options that make no sense, NotAllowedError for those that the asker
        may not have.
        """
        from pipeline.query.asker import ANYONE, request_for

        return request_for(asker or ANYONE, question, self.settings.query, options, self.tokenizer)

    def query_resources(self, mode: str, asker: Asker | None = None) -> QueryResources:
        """For one question. It, and each read, raises NothingLoadedError, OtherOwnerError for a
        workspace that is another owner's and was not named for this once, and UsageError for
        vectors that no model of the settings makes.
        """
        from pipeline.query.account import (
            Account,
            AccountedChat,
            AccountedEmbedding,
            AccountedReranker,
        )
        from pipeline.query.asker import ANYONE
        from pipeline.query.resources import QueryResources
        from pipeline.query.search.visible import only_visible

        account = Account(asker or ANYONE, self.settings.workspace, mode, self.question_journal)
        last = self._last_shown
        embedding = AccountedEmbedding(
            (last.shown or last.at(self.stores.live())).embedding, account
        )

        def counted(chats: Callable[[str], ChatModel], name: str) -> ChatModel | None:
            chat = self._answering(chats, name)
            return AccountedChat(chat, account) if chat else None

        return QueryResources(
            only_visible(
                account.asker.where, partial(self._read_as_shown, embedding, account.asker.all_told)
            ),
            embedding,
            partial(counted, self.query_chat),
            partial(counted, self.keyword_chat),
            self.tokenizer,
            self.query_prompt,
            AccountedReranker(self.reranker, account) if self.reranker else None,
            cache(self._measured),
            account,
            self._learn_window,
            self._longest_reply,
        )

    @made_once
    def _last_shown(self) -> LastShown:
        return LastShown(self._shown_as)

    def _shown_as(self, live: Live | None) -> Shown:
        if live is None:
            raise NothingLoadedError(
                f"workspace '{self.settings.workspace}': nothing is loaded; run 'graphmill run'"
                " first"
            )
        self.refuse_other_view(live)
        return Shown(live, self.embedding_like(live.embedding), self.notes_on_owner(live))

    def _read_as_shown(
        self, embedding: AccountedEmbedding, all_told: bool, work: Work[Result], /
    ) -> tuple[Result, tuple[str, ...]]:
        """Raises OtherVectorsError where what is read now are not the vectors of ``embedding``,
        which is that of these from then on."""

        def at_this_moment(vectors: VectorStore, graph: GraphStore) -> tuple[Result, Shown]:
            shown = self._last_shown.at(vectors.live())
            if shown.embedding is not embedding.model:
                raise OtherVectorsError(
                    f"workspace '{self.settings.workspace}': another model's vectors were loaded"
                    " just now; ask again"
                )
            return work(vectors, graph), shown

        try:
            (result, shown), told = self.stores.read(at_this_moment)
        except OtherVectorsError:
            embedding.model = self._last_shown.at(self.stores.live()).embedding
            raise
        embedding.account.loaded = f"{shown.live.workflow} {shown.live.version}"
        return result, (*(shown.notes if all_told else ()), *told)

    def _resources_of(
        self, request: QueryRequest, asker: Asker | None, options: Mapping[str, Any]
    ) -> QueryResources:
        """With a word on the default mode, once, where neither the question nor the settings name
        one, to who may be told."""
        from pipeline.query.resources import noting

        resources = self.query_resources(request.mode, asker)
        silent = options.get("mode") or not resources.account.asker.all_told
        return replace(resources, read=noting(() if silent else self._told_mode(), resources.read))

    def _told_mode(self) -> tuple[str, ...]:
        """Once in the life of a project: an earlier version searched otherwise. Nothing where it
        cannot be noted that it was told: else every question would say it."""
        query = self.settings.query
        if query.names_mode:
            return ()
        try:
            (self.root / TOLD_FILE).touch(exist_ok=False)
        except OSError:
            return ()
        return (
            (
                f"{SETTINGS} names no query.mode: it is '{query.mode}', with top_k {query.top_k}"
                f" and chunk_top_k {query.chunk_top_k}, and was 'hybrid' with 60 and 20; set"
                " query.mode, or query.preset: lightrag for all that was. This is said once"
            ),
        )

    def _answering(self, chats: Callable[[str], ChatModel], name: str) -> ChatModel | None:
        chat = self.settings.models.chat.get(name)
        if chat is None and name != DEFAULT:
            have = ", ".join(sorted(self.settings.models.chat)) or "none"
            raise UsageError(f"query: no chat model '{name}' in models.chat; have: {have}")
        return chats(name) if chat and chat.configured else None

    def _measured(self, name: str) -> Measured:
        """Return what is known of the chat model that answers under this name, if one does."""
        from pipeline.models.measured import UNMEASURED

        if self._answering(self.query_chat, name) is None:
            return UNMEASURED
        chat = self.query_chat(name)
        return self.measured.of(chat.endpoint.digest).within(chat.window)

    def _learn_window(self, name: str, window: int) -> Measured:
        """Keep the window, in tokens, that the endpoint of a chat model has named in a refusal."""
        today = datetime.now(UTC).date().isoformat()
        digest = self.query_chat(name).endpoint.digest
        self.measured.note(digest, window=window, measured=today, source="endpoint")
        return self._measured(name)

    def _longest_reply(self, name: str) -> int | None:
        """Return max_tokens of the chat model that answers under this name, if one does and has
        it."""
        if self._answering(self.query_chat, name) is None:
            return None
        options = self.query_chat(name).options
        return options.get("max_completion_tokens") or options.get("max_tokens")
