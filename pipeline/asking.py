"""Queries of a project whose stores are loaded: answers, evidence, next questions, evaluations.

Each method imports what it needs, so that a search does not load the libraries of a chat model.
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
from pipeline.settings.query_keywords import with_option_names
from pipeline.spans import question_events, question_span
from pipeline.stores.base import Advanced, silent

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
    from typing import Unpack

    from pipeline.engine.bill.expected_calls import Estimate
    from pipeline.evaluation.answer_results import AnswerEvaluation, AnswerSetup
    from pipeline.evaluation.answers import AnswerTarget
    from pipeline.evaluation.questions import Questions
    from pipeline.evaluation.results import Evaluation
    from pipeline.models.base import ChatModel, EmbeddingModel
    from pipeline.models.measured import Measured
    from pipeline.query.account import Account, AccountedEmbedding
    from pipeline.query.answer import Answer
    from pipeline.query.caller import Caller
    from pipeline.query.drawing import Drawing, Named
    from pipeline.query.next_questions import NextQuestions
    from pipeline.query.request import QueryRequest
    from pipeline.query.resources import QueryResources
    from pipeline.query.stream import Event
    from pipeline.settings.query_keywords import QueryKeywords
    from pipeline.stores.base import Live
    from pipeline.stores.connection import Result, Work
    from pipeline.stores.reads import GraphReads, GraphStore, VectorReads, VectorStore
    from pipeline.stores.records import Dot

MOST_QUESTIONS = 50
TOLD_FILE = "data/told-default-mode"


@dataclass(frozen=True)
class Shown:
    """The load that a workspace shows, the model of its vectors, and notes on its owner."""

    live: Live
    embedding: EmbeddingModel
    notes: tuple[str, ...]


@dataclass
class LastShown:
    """The view that the last question saw.

    The next question is embedded with the same model, so that the stores need not be asked first.
    """

    find: Callable[[Live | None], Shown]
    shown: Shown | None = None

    def at(self, live: Live | None) -> Shown:
        """Return the view of this load; find it if it is not the last one."""
        # Read once: a question in another thread may replace it meanwhile.
        shown = self.shown
        if shown is None or shown.live != live:
            self.shown = shown = self.find(live)
        return shown


@dataclass
class LastOpening:
    """The first drawing of the graph, with the version of its load.

    Both are one value, because several threads may set it at the same time.
    """

    known: tuple[str, Drawing] | None = None

    def of(self, version: str, draw: Callable[[], Drawing]) -> Drawing:
        """Return the drawing of the load ``version``; call ``draw`` if it is not known.

        The drawing may be of a later load, if there was one since the version was read.
        """
        known = self.known
        if known is None or known[0] != version:
            self.known = known = (version, draw())
        return known[1]


class Asking(Services):
    """The queries of a project."""

    @with_option_names
    def query(
        self, question: str, caller: Caller | None = None, **options: Unpack[QueryKeywords]
    ) -> Answer:
        """Answer a question from the loaded stores; ``options`` are those of QueryRequest.

        ``caller`` is the caller; the default has no limits. Raises UsageError for invalid options,
        StoreError and ModelError if a service fails.
        """
        from pipeline.query.answer import answer

        request = self.request(question, caller, **options)
        with question_span(request.mode):
            return answer(request, self._resources_of(request, caller, options))

    @with_option_names
    def query_stream(
        self, question: str, caller: Caller | None = None, **options: Unpack[QueryKeywords]
    ) -> Iterator[Event]:
        """Yield Sources, the answer's text in pieces, then the whole answer; or Failed instead.

        Raises UsageError for invalid options. The first question of a project also raises
        StoreError if the stores do not answer.
        """
        from pipeline.query.stream import stream_answer

        request = self.request(question, caller, **options)
        events = stream_answer(request, self._resources_of(request, caller, options))
        return question_events(events, request.mode)

    def may_ask_chat(self, options: Mapping[str, Any]) -> bool:
        """Return whether a question with these options may ask a chat model; it need not do so."""
        from pipeline.query.search.modes import may_ask_chat

        given = {name: value for name, value in options.items() if value is not None}
        asked = {**self.settings.query.options, **given}
        chat = self.settings.models.chat.get(asked["model"])
        return chat is not None and chat.configured and may_ask_chat(asked)

    @with_option_names
    def query_data(
        self, question: str, caller: Caller | None = None, **options: Unpack[QueryKeywords]
    ) -> dict[str, Any]:
        """Return the evidence for a question as JSON, without asking a model for an answer."""
        options["only_need_context"] = True
        return self.query(question, caller, **options).data_json()

    def read(
        self, work: Callable[[VectorReads, GraphReads], Result], caller: Caller | None = None
    ) -> Result:
        """Return the result of ``work`` on one consistent state of the stores.

        It sees only what the caller may see.
        """
        return self.query_resources("read", caller).read(work)[0]

    def draw(self, named: Named, caller: Caller | None = None) -> Drawing:
        """Return a drawing of a part of the graph.

        The first drawing needs a scan of the whole graph, so it is kept while the load is shown.
        Raises NotAllowedError for a caller who may see only some documents.
        """
        from pipeline.query.caller import refuse_graph
        from pipeline.query.drawing import Named, draw

        refuse_graph(caller)
        if named != Named(limit=named.limit):
            return self.read(partial(draw, named), caller)
        live = self.stores.live()
        return self._opening.of(
            live.version if live else "", lambda: self.read(partial(draw, named), caller)
        )

    @made_once
    def _opening(self) -> LastOpening:
        return LastOpening()

    def find_entities(
        self, text: str, meaning: bool, limit: int, caller: Caller | None = None
    ) -> list[Dot]:
        """Return the entities whose names contain the text, best first.

        With ``meaning``, return those whose name and description are most similar to it instead.
        Raises NotAllowedError for a caller who may see only some documents.
        """
        from pipeline.query.caller import refuse_graph
        from pipeline.query.drawing import find_by_meaning, find_by_name

        refuse_graph(caller)
        resources = self.query_resources("find", caller)
        if meaning:
            [vector] = resources.embedding.embed([text])
            find = partial(find_by_meaning, vector, limit)
        else:
            find = partial(find_by_name, text, limit)
        found, _ = resources.read(find)
        return found

    @with_option_names
    def questions(
        self,
        question: str,
        number: int = 5,
        caller: Caller | None = None,
        **options: Unpack[QueryKeywords],
    ) -> NextQuestions:
        """Return questions to ask after this question and its ``conversation_history``.

        ``options`` are those of QueryRequest. Raises UsageError for invalid options and without a
        chat model, ModelError if the model returns no questions.
        """
        from pipeline.query.next_questions import ask_next_questions

        if not 1 <= number <= MOST_QUESTIONS:
            raise UsageError(f"questions: number: {number}; ask for 1 to {MOST_QUESTIONS}")
        request = self.request(question, caller, **options)
        return ask_next_questions(request, number, self.query_resources(request.mode, caller))

    @with_option_names
    async def aquery(
        self, question: str, caller: Caller | None = None, **options: Unpack[QueryKeywords]
    ) -> Answer:
        from asyncio import to_thread

        return await to_thread(self.query, question, caller, **options)

    @with_option_names
    async def aquery_data(
        self, question: str, caller: Caller | None = None, **options: Unpack[QueryKeywords]
    ) -> dict[str, Any]:
        from asyncio import to_thread

        return await to_thread(self.query_data, question, caller, **options)

    @with_option_names
    async def aquery_stream(
        self, question: str, caller: Caller | None = None, **options: Unpack[QueryKeywords]
    ) -> AsyncIterator[Event]:
        from asyncio import to_thread

        events = await to_thread(self.query_stream, question, caller, **options)
        while (event := await to_thread(next, events, None)) is not None:
            yield event

    def evaluate(
        self, questions: Questions, modes: Sequence[str] | None = None,
        ks: Sequence[int] | None = None,
        budget: int | None = None, by: str = "type", keywords: bool = False, rerank: bool = False,
        advanced: Advanced = silent,
    ) -> Evaluation:  # fmt: skip
        """Measure which share of the questions' gold each mode finds (docs/evaluation.md).

        The default is all modes that retrieve text units. The chat model is asked only with
        ``keywords``, the reranker only with ``rerank``. Raises UsageError for questions that cannot
        be read, and the errors of ``query``.
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

    def evaluate_answers(
        self,
        questions: Questions,
        setup: AnswerSetup | None = None,
        advanced: Advanced = silent,
    ) -> AnswerEvaluation:
        """Ask the chat model the questions, and measure its answers (docs/evaluation.md).

        Replies are cached. Raises UsageError for questions that cannot be read, BudgetError when a
        limit of the setup is reached, and the errors of ``query``.
        """
        from pipeline.evaluation.answers import evaluate_answers
        from pipeline.evaluation.questions import read_questions

        setup, target = self._answer_target(setup)
        read = read_questions(questions, setup.by, for_answers=True)
        return evaluate_answers(read, setup, target, advanced)

    def forecast_answers(
        self, questions: Questions, setup: AnswerSetup | None = None
    ) -> dict[str, Estimate]:
        """Return what ``evaluate_answers`` would ask and cost, by kind of call.

        No model is called.
        """
        from pipeline.evaluation.answer_price import forecast_answers
        from pipeline.evaluation.questions import read_questions

        setup, target = self._answer_target(setup)
        return forecast_answers(
            read_questions(questions, setup.by, for_answers=True), setup, target
        )

    def _answer_target(self, setup: AnswerSetup | None) -> tuple[AnswerSetup, AnswerTarget]:
        """Return the setup with the default mode if it has none, and what it evaluates."""
        from pipeline.engine.usage.run_budget import Budget
        from pipeline.evaluation.answer_results import AnswerSetup
        from pipeline.evaluation.answers import AnswerTarget, BudgetedAccount

        setup = setup or AnswerSetup()
        if not setup.modes:
            setup = replace(setup, modes=(self.settings.query.mode,))
        account = BudgetedAccount(
            workspace=self.settings.workspace,
            mode="evaluate",
            journal=self.question_journal,
            budget=Budget(setup.max_cost, setup.max_tokens),
        )
        resources = self.query_resources("evaluate", account=account)
        embedding = self._last_shown.at(self.stores.live()).embedding
        target = AnswerTarget(
            self.request, resources, account, self.stores.vectors, self.query_chat, embedding
        )
        return setup, target

    def _data_of_any_size(self, question: str, **options: Unpack[QueryKeywords]) -> dict[str, Any]:
        """Return the evidence for a question even if its prompt exceeds the model's window.

        The prompt is only measured, never sent.
        """
        from pipeline.query.answer import answer

        options["only_need_context"] = True
        request = self.request(question, **options)
        resources = self._resources_of(request, None, options)

        def without_window(name: str) -> Measured:
            return replace(self._measured(name), window=None)

        return answer(request, replace(resources, measured=without_window)).to_json()

    @with_option_names
    def request(
        self, question: str, caller: Caller | None = None, **options: Unpack[QueryKeywords]
    ) -> QueryRequest:
        """Return a request; the project's defaults replace options that are missing or None.

        Raises UsageError for invalid options, NotAllowedError for options that the caller may not
        use.
        """
        from pipeline.query.caller import ANYONE, build_allowed_request

        return build_allowed_request(
            caller or ANYONE, question, self.settings.query, options, self.tokenizer
        )

    def query_resources(
        self, mode: str, caller: Caller | None = None, account: Account | None = None
    ) -> QueryResources:
        """Return the resources for one question, whose calls are recorded in ``account``.

        The default is a new account of the caller with the usage records of the project.

        This method and each read of the resources raise NothingLoadedError if nothing is loaded,
        OtherOwnerError if the workspace belongs to another owner and was not named explicitly, and
        UsageError if no model of the settings makes vectors like the loaded ones.
        """
        from pipeline.query.account import (
            Account,
            AccountedChat,
            AccountedEmbedding,
            AccountedReranker,
        )
        from pipeline.query.caller import ANYONE
        from pipeline.query.resources import QueryResources
        from pipeline.query.search.visible import restrict_to_visible

        caller = caller or ANYONE
        if account is None:
            account = Account(caller, self.settings.workspace, mode, self.question_journal)
        last = self._last_shown
        shown = last.shown or last.at(self.stores.live())
        embedding = AccountedEmbedding(shown.embedding, account)

        def accounted_chat(chats: Callable[[str], ChatModel], name: str) -> ChatModel | None:
            chat = self._configured_chat(chats, name)
            return AccountedChat(chat, account) if chat else None

        read = partial(self._read_as_shown, embedding, caller.sees_internals)
        return QueryResources(
            restrict_to_visible(caller.where, read),
            embedding,
            chat=partial(accounted_chat, self.query_chat),
            keyword_chat=partial(accounted_chat, self.keyword_chat),
            tokenizer=self.tokenizer,
            prompt=self.query_prompt,
            reranker=AccountedReranker(self.reranker, account) if self.reranker else None,
            fuses_ranks=self.fuses_ranks,
            measured=cache(self._measured),
            account=account,
            learn_window=self._learn_window,
            longest_reply=self._longest_reply,
        )

    @made_once
    def _last_shown(self) -> LastShown:
        return LastShown(self._shown_as)

    def _shown_as(self, live: Live | None) -> Shown:
        """Return the view of a load. Raises as ``query_resources``."""
        if live is None:
            raise NothingLoadedError(
                f"workspace '{self.settings.workspace}': nothing is loaded; run 'graphmill run'"
                " in the project that fills this workspace"
            )
        self.refuse_other_view(live)
        return Shown(live, self.embedding_like(live.embedding), self.notes_on_owner(live))

    def _read_as_shown(
        self, embedding: AccountedEmbedding, sees_internals: bool, work: Work[Result], /
    ) -> tuple[Result, tuple[str, ...]]:
        """Do all reads of ``work`` in one state of the stores; return its result and notes.

        ``sees_internals``: notes on the owner are included. Raises OtherVectorsError if the stores
        now hold vectors of another model than ``embedding``'s; ``embedding`` then uses that model.
        """

        def at_this_moment(vectors: VectorStore, graph: GraphStore) -> tuple[Result, Shown]:
            shown = self._last_shown.at(vectors.live())
            if shown.embedding is not embedding.model:
                raise OtherVectorsError(
                    f"workspace '{self.settings.workspace}': another model's vectors were loaded"
                    " just now; ask again"
                )
            return work(vectors, graph), shown

        try:
            (result, shown), store_notes = self.stores.read(at_this_moment)
        except OtherVectorsError:
            embedding.model = self._last_shown.at(self.stores.live()).embedding
            raise
        embedding.account.loaded = f"{shown.live.workflow} {shown.live.version}"
        owner_notes = shown.notes if sees_internals else ()
        return result, (*owner_notes, *store_notes)

    def _resources_of(
        self, request: QueryRequest, caller: Caller | None, options: Mapping[str, Any]
    ) -> QueryResources:
        """Return the resources for a request, whose reads may add a note on the default mode.

        The note is for callers who may see messages on the project and have named no mode.
        """
        from pipeline.query.resources import add_notes

        resources = self.query_resources(request.mode, caller)
        notes: tuple[str, ...] = ()
        if not options.get("mode") and resources.account.caller.sees_internals:
            notes = self._default_mode_notes()
        return replace(resources, read=add_notes(notes, resources.read))

    def _default_mode_notes(self) -> tuple[str, ...]:
        """Return a note on the default mode, once in the life of a project without ``query.mode``.

        An earlier version had another default. A file records that the note was shown; if it cannot
        be written, there is no note, because every question would repeat it.
        """
        query = self.settings.query
        if query.names_mode:
            return ()
        try:
            (self.root / TOLD_FILE).touch(exist_ok=False)
        except OSError:
            return ()
        note = (
            f"{SETTINGS} names no query.mode: it is '{query.mode}', with top_k {query.top_k}"
            f" and chunk_top_k {query.chunk_top_k}, and was 'hybrid' with 60 and 20; set"
            " query.mode, or query.preset: lightrag for all that was. This is said once"
        )
        return (note,)

    def _configured_chat(self, chats: Callable[[str], ChatModel], name: str) -> ChatModel | None:
        """Return the chat model of this name, or None if it is not configured.

        Raises UsageError for an unknown name.
        """
        chat = self.settings.models.chat.get(name)
        if chat is None and name != DEFAULT:
            have = ", ".join(sorted(self.settings.models.chat)) or "none"
            raise UsageError(f"query: no chat model '{name}' in models.chat; have: {have}")
        return chats(name) if chat and chat.configured else None

    def _measured(self, name: str) -> Measured:
        """Return what trials have shown of the chat model of this name, if it is configured."""
        from pipeline.models.measured import UNMEASURED

        if self._configured_chat(self.query_chat, name) is None:
            return UNMEASURED
        chat = self.query_chat(name)
        return self.measured.of(chat.endpoint.digest).within(chat.window)

    def _learn_window(self, name: str, window: int) -> Measured:
        """Store the window, in tokens, that the endpoint of a chat model has named in a refusal."""
        today = datetime.now(UTC).date().isoformat()
        digest = self.query_chat(name).endpoint.digest
        self.measured.note(digest, window=window, measured=today, source="endpoint")
        return self._measured(name)

    def _longest_reply(self, name: str) -> int | None:
        """Return max_tokens of the chat model of this name; None if it has none."""
        if self._configured_chat(self.query_chat, name) is None:
            return None
        options = self.query_chat(name).options
        return options.get("max_completion_tokens") or options.get("max_tokens")
