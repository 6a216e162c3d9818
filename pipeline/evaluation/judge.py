"""Judgement of answers by a chat model, against gold answers."""

import json
import re
from collections.abc import Sequence

from pipeline.contract.prompts import Placeholders, Prompt
from pipeline.models.base import GENEROUS_REPLY, ChatReply, ChatRequest, Message, readable
from pipeline.models.parse.lenient_json import plain

RIGHT, PARTLY, WRONG = "right", "partly", "wrong"
UNREADABLE = "none of right, partly and wrong"
PROMPT = "judge_answer"
ROW = "judge"
"""Row id of the requests."""
FENCE, NO_FENCE = "```", "'''"
_VERDICT = re.compile(rf"\b({RIGHT}|{PARTLY}|{WRONG})\b", re.IGNORECASE)


def judge_request(prompt: Prompt, question: str, golds: Sequence[str], answer: str) -> ChatRequest:
    """Return the request for a verdict. Raises SettingsError if the prompt lacks its placeholder.

    ``answer`` is the text without its citations.
    """
    prompt.check(Placeholders(("case",)))
    case = {
        "question": question,
        "right_answers": list(golds),
        "answer": answer,
    }
    case_json = json.dumps(case, ensure_ascii=False, indent=1)
    # A fence in an answer would end the block of the prompt that holds it.
    without_fences = case_json.replace(FENCE, NO_FENCE)
    message: Message = {"role": "user", "content": prompt.render(case=without_fences)}
    check = readable(read_verdict, UNREADABLE)
    return ChatRequest(ROW, (message,), check=check, max_tokens=GENEROUS_REPLY)


def read_verdict(reply: str) -> str | None:
    """Return the verdict in a reply; None if there is none, or more than one."""
    words = _VERDICT.findall(plain(reply))
    verdicts = {word.lower() for word in words}
    return verdicts.pop() if len(verdicts) == 1 else None


def verdict_of(reply: ChatReply) -> tuple[str, str]:
    """Return the verdict and "", or "" and the reason why there is none."""
    if reply.reason:
        return "", f"{reply.reason}: {reply.message}"
    verdict = read_verdict(reply.text)
    if verdict is None:
        return "", UNREADABLE
    return verdict, ""
