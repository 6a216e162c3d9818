"""Questions that could be asked next, made by the chat model from the evidence of a question."""

from dataclasses import dataclass
from typing import Any

from pipeline.contract.prompts import Placeholders
from pipeline.errors import UsageError
from pipeline.models.base import ChatRequest, readable
from pipeline.query import formats
from pipeline.query.answer import sum_usage
from pipeline.query.messages import (
    CONTEXT,
    ELSEWHERE,
    build_conversation,
    count_tokens,
    name_language,
)
from pipeline.query.prepare import prepare
from pipeline.query.prepared import Messages, PreparedQuery
from pipeline.query.replies import ask_twice, refuse_failed
from pipeline.query.request import QueryRequest
from pipeline.query.resources import QueryResources
from pipeline.query.too_long import ask_within_window

PROMPT = "next_questions"
PLACEHOLDERS = Placeholders(("number",), CONTEXT)


@dataclass(frozen=True)
class NextQuestions:
    """Questions to ask next, the most promising first.

    ``usage``: tokens as the endpoint counted them. ``cost`` and ``question_id``: as in Answer.
    """

    request: QueryRequest
    questions: tuple[str, ...]
    usage: dict[str, int]
    notes: tuple[str, ...] = ()
    question_id: str = ""
    cost: float | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "mode": self.request.mode,
            "question": self.request.query,
            "questions": list(self.questions),
            "usage": self.usage,
            "cost": self.cost,
            "question_id": self.question_id,
            "notes": list(self.notes),
        }


def ask_next_questions(
    request: QueryRequest, number: int, resources: QueryResources
) -> NextQuestions:
    """Return at most ``number`` questions that follow the request's question and conversation.

    They are made from the evidence that the mode finds for the question; if the mode shows reports
    in windows, from the first window. Raises UsageError without a chat model, ModelError if it
    returns no questions.
    """
    # This import loads a library that other questions do not need.
    from pipeline.models.parse.report import parse_questions

    chat = resources.chat(request.model)
    if chat is None:
        raise UsageError(
            "questions: they are the chat model's, and none is configured; set OPENAI_API_KEY"
        )
    asked_before = {turn.content.casefold() for turn in request.conversation_history}
    asked_before.add(request.query.casefold())

    def ask(request: QueryRequest, notes: tuple[str, ...]) -> NextQuestions:
        prepared = prepare(request, resources)
        messages = _question_messages(prepared, number, resources)
        check = readable(lambda text: parse_questions(text) or None, "no questions in the reply")
        form = resources.answering_in(formats.QUESTIONS, request.model)
        asked = ChatRequest("questions", messages, form, check)
        [[reply], paid] = chat.converse([ask_twice([asked], 1)])[0]
        refuse_failed(reply, count_tokens(messages, resources.tokenizer))
        new = [
            question
            for question in parse_questions(reply.text)
            if question.casefold() not in asked_before
        ]
        all_notes = [*notes, *prepared.notes]
        if reply.message:
            all_notes.append(f"the model's questions could not all be read ({reply.message})")
        return NextQuestions(
            request,
            tuple(new[:number]),
            sum_usage(*prepared.replies, *paid),
            tuple(all_notes),
            resources.account.question,
            resources.account.cost,
        )

    return ask_within_window(request, resources, ask)


def _question_messages(prepared: PreparedQuery, number: int, resources: QueryResources) -> Messages:
    """Return the messages of the call for ``number`` questions."""
    template = resources.prompt(PROMPT)
    template.check(PLACEHOLDERS)
    context = prepared.context.windows[0] if prepared.context.windows else prepared.context.text
    language = name_language(prepared.request)
    rules = template.render(context=ELSEWHERE, number=str(number), language=language)
    return build_conversation(prepared.request, rules, context, prepared.request.query)
