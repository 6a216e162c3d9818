"""How the test endpoint decides what to reply, to a request of its own and to a row of a batch
alike."""

import traceback
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tests.servers.openai_cuts import cut_between, cut_inside
from tests.servers.openai_replies import Messages, Reply, content_of, count_tokens
from tests.servers.openai_shapes import (
    Counting,
    Request,
    chat_json,
    completion_tokens,
    embeddings_json,
    models_json,
    usage_json,
)

if TYPE_CHECKING:
    from tests.servers.openai_server import OpenAIServer

THOUGHT = (
    "<think>\nFirst the text is read, then what it says is put into the form that was asked"
    " for.\n</think>\n\n"
)


def answer(endpoint: "OpenAIServer", request: Request) -> tuple[Request, Reply]:
    """(the request as the ledger keeps it, the reply to it)."""
    messages = request.messages
    if endpoint.context_tokens is not None and request.kind == "chat":
        messages = last_tokens(messages, endpoint.context_tokens)
        request = replace(request, prompt_tokens=endpoint.counting.prompt(messages))
    if endpoint.prefix_cache is not None and request.kind == "chat":
        uncached = endpoint.prefix_cache.count_uncached(messages, endpoint.counting.text)
        request = replace(request, prompt_tokens=uncached)
    reply = decide(endpoint, request, messages)
    if endpoint.thinking and request.kind == "chat" and reply.status < 400:
        reply = replace(reply, text=THOUGHT + (reply.text or ""))
    if request.kind == "chat":
        reply = endpoint.output.cut(reply, request.body, endpoint.counting)
    if endpoint.usage != "tokens":
        reply = replace(reply, usage=endpoint.usage)
    return settled(request, reply, endpoint.counting), reply


def decide(endpoint: "OpenAIServer", request: Request, messages: Messages) -> Reply:
    refusal = endpoint.output.refuse(request) if request.kind == "chat" else None
    told = refusal or endpoint.next_scripted("batch" if request.custom_id else request.kind)
    if told is None and request.kind in ("chat", "embeddings"):
        told = endpoint.draw_fault(request)
    if told and (told.status >= 400 or told.text is not None or told.hold):
        return told
    if request.kind == "embeddings" and (not request.inputs or "" in request.inputs):
        return Reply("'$.input' is invalid: it is empty or holds an empty string.", status=400)
    if request.kind != "chat":
        return told or Reply()
    usual = usual_reply(endpoint, request.body, messages)
    if told is None or usual.status >= 400:
        return usual
    return replace(told, text=cut_text(usual.text or "", told))


def cut_text(text: str, reply: Reply) -> str:
    """Return as much of the usual text as the reply has of it."""
    if reply.cut:
        return (cut_inside if reply.cut == "inside" else cut_between)(text)
    return text[: len(text) // 2] if reply.finish_reason == "length" else text


def usual_reply(endpoint: "OpenAIServer", body: Mapping[str, Any], messages: Messages) -> Reply:
    if "response_format" in body and endpoint.json_ability is not True:
        if endpoint.json_ability is False:
            return Reply("'response_format' is not supported with this model.", status=400)
        body = {name: value for name, value in body.items() if name != "response_format"}
    try:
        return endpoint.reply(messages, body)
    except Exception:
        return Reply(traceback.format_exc(), status=500)


def last_tokens(messages: Messages, budget: int) -> Messages:
    """The end of a conversation, of at most so many tokens; what is before is forgotten."""
    kept: list[Any] = []
    for message in reversed(messages):
        content = content_of(message)
        if budget <= 0:
            break
        if count_tokens(content) > budget:
            content = content.encode("utf-8", "surrogatepass")[-(budget * 4 - 1) :].decode(
                "utf-8", "ignore"
            )
        budget -= count_tokens(content)
        kept.insert(0, {**message, "content": content})
    return kept


def settled(request: Request, reply: Reply, counting: Counting) -> Request:
    """With the status and tokens of its answer."""
    if reply.status >= 400 or reply.drop or reply.hold:
        status = reply.status if reply.status >= 400 else 0
        return replace(request, status=status, prompt_tokens=0, fault=reply.fault)
    return replace(
        request, completion_tokens=completion_tokens(request, reply, counting), fault=reply.fault
    )


def answer_json(request: Request, reply: Reply, dimensions: int) -> dict[str, Any]:
    if request.kind == "models":
        return models_json()
    made = (
        chat_json(request, reply)
        if request.kind == "chat"
        else embeddings_json(request, reply, dimensions)
    )
    return {**made, **usage_json(request, reply)}
