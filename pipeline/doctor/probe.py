"""A chat model under examination: one call at a time, each timed and counted."""

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pipeline.models.base import ChatModel, ChatReply, ChatRequest, Message, Tokenizer
from pipeline.models.reply_text import without_thinking

THINKING = re.compile(r"<\s?/?\s?(?:think|thinking|thought|reasoning)\s?>", re.IGNORECASE)


@dataclass(frozen=True)
class Call:
    reply: ChatReply
    seconds: float


@dataclass
class Probe:
    chat: ChatModel
    tokenizer: Tokenizer
    calls: list[Call] = field(default_factory=list)

    def ask(self, messages: Sequence[Message], response_format: Mapping[str, Any] | None = None) -> ChatReply:
        request = ChatRequest(f"doctor-{len(self.calls)}", tuple(messages), response_format)
        started = time.perf_counter()
        [reply] = self.chat.complete([request])
        self.calls.append(Call(reply, time.perf_counter() - started))
        return reply

    @property
    def answered(self) -> list[Call]:
        return [call for call in self.calls if call.reply.reason is None]

    @property
    def thinking(self) -> int:
        """How many replies carry thinking tags."""
        return sum(bool(THINKING.search(call.reply.text)) for call in self.answered)

    @property
    def hidden_share(self) -> float:
        """Of the tokens billed as output, those that the replies' texts do not show."""
        billed = sum(call.reply.output_tokens for call in self.answered)
        shown = sum(self.tokenizer.count(call.reply.text) for call in self.answered)
        return max(0.0, 1 - shown / billed) if billed else 0.0

    def output_tokens(self, call: Call) -> int:
        """As the server counts, or, where it does not, as we do."""
        return call.reply.output_tokens or self.tokenizer.count(call.reply.text)

    def input_tokens(self, messages: Sequence[Message]) -> int:
        return sum(self.tokenizer.count(message["content"]) for message in messages)


def spoken(reply: ChatReply) -> str:
    """The reply's words in one line, short, for people."""
    text = " ".join(without_thinking(reply.text).split())
    return text[:100] + ("..." if len(text) > 100 else "") or "nothing"
