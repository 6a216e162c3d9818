"""What could be asked next."""

from dataclasses import dataclass
from typing import Any

from pipeline.errors import UsageError
from pipeline.models.base import ChatReply, ChatRequest
from pipeline.models.parse_inquiry import parse_questions
from pipeline.prompts import Placeholders
from pipeline.query.answer import usage_of
from pipeline.query.messages import Messages, conversation
from pipeline.query.prepare import prepare
from pipeline.query.prepared import Prepared
from pipeline.query.replies import refuse_failed
from pipeline.query.request import QueryRequest
from pipeline.query.stage import QueryStage

PROMPT = "next_questions"
PLACEHOLDERS = Placeholders(("context", "number"))


@dataclass(frozen=True)
class NextQuestions:
    """``questions``: the most promising first. ``usage``: tokens as the endpoint counted them."""

    request: QueryRequest
    questions: tuple[str, ...]
    usage: dict[str, int]
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "mode": self.request.mode,
            "question": self.request.query,
            "questions": list(self.questions),
            "usage": self.usage,
            "notes": list(self.notes),
        }


def next_questions(request: QueryRequest, number: int, stage: QueryStage) -> NextQuestions:
    """At most ``number`` questions that lead on from the request's conversation and question, from what its mode finds
    for that question. Of a mode that shows reports in windows, the first window is looked at.

    Raises UsageError without a chat model, ModelError where it gives no questions.
    """
    chat = stage.chat(request.model)
    if chat is None:
        raise UsageError("questions: they are the chat model's, and none is configured; set OPENAI_API_KEY")
    prepared = prepare(request, stage)
    messages = _messages(prepared, number, stage)
    reply = chat.complete([ChatRequest("questions", messages, check=_unreadable)])[0]
    refuse_failed(reply)
    asked = {turn.content.casefold() for turn in request.conversation_history} | {request.query.casefold()}
    new = [question for question in parse_questions(reply.text) if question.casefold() not in asked]
    return NextQuestions(request, tuple(new[:number]), usage_of(*prepared.replies, reply), _notes(prepared, reply))


def _messages(prepared: Prepared, number: int, stage: QueryStage) -> Messages:
    template = stage.prompt(PROMPT)
    template.check(PLACEHOLDERS)
    context = prepared.context.windows[0] if prepared.context.windows else prepared.context.text
    return conversation(prepared.request, template.render(context=context, number=str(number)), prepared.request.query)


def _notes(prepared: Prepared, reply: ChatReply) -> tuple[str, ...]:
    objection = (f"the model's questions could not all be read ({reply.message})",) if reply.message else ()
    return (*prepared.notes, *objection)


def _unreadable(text: str) -> str | None:
    return None if parse_questions(text) else "no questions in the reply"
