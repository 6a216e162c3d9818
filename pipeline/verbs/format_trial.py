"""A trial that finds the format in which a chat model writes a readable graph.

The model is asked for the graph of one made-up sentence, whose names are known.
"""

from dataclasses import dataclass

from pipeline.contract.prompts import Prompt
from pipeline.contract.reasons import PASSING_REASONS
from pipeline.models.base import GENEROUS_REPLY, ChatReply, ChatRequest, Talk
from pipeline.models.parse.graph import Graph, failed, parse_graph_json, parse_records, unreadable
from pipeline.models.parse.graph_format import BOUNDED_GRAPH_JSON_FORMAT, GRAPH_JSON_FORMAT
from pipeline.verbs.graph_prompt import JSON, RECORDS, Format, opening

ROW = "format-trial"
NAMES = ("Ottilie Varnhagen", "Brindlemoor Observatory", "Tarnwick")
FACT = "Ottilie Varnhagen founded the Brindlemoor Observatory in Tarnwick."
ENOUGH_NAMES = 2
"""The number of names that a reply must contain.

A small model may miss one name. A prompt that was cut off loses all of them.
"""


@dataclass(frozen=True)
class Choice:
    """The format that the trial has chosen, or None if it chose none; ``fact`` says why.

    ``answered`` is false if the server failed. Then the trial says nothing about the model.
    """

    format: Format | None
    fact: str = ""
    answered: bool = True


def parsed_in(format: Format, reply: str) -> Graph:
    """Parse a reply that was asked for in this format."""
    return parse_graph_json(reply) if format == JSON else parse_records(reply)


def found(parsed: Graph) -> bool:
    """Return whether the records contain the names of the sentence."""
    names = " | ".join(entity.name for entity in parsed.entities).casefold()
    return sum(name.casefold() in names for name in NAMES) >= ENOUGH_NAMES


def trial_request(format: Format, extract: Prompt, entity_types: str) -> ChatRequest:
    """Return the request for the graph of the sentence, by the project's own prompt."""

    def complaint(reply: str) -> str | None:
        problem = unreadable(parsed_in(format, reply), reply)
        return problem.message if problem else None

    messages = opening(extract, format, FACT, entity_types)
    if format != JSON:
        return ChatRequest(ROW, messages, check=complaint, max_tokens=GENEROUS_REPLY)
    return ChatRequest(
        ROW,
        messages,
        GRAPH_JSON_FORMAT,
        complaint,
        bounded_format=BOUNDED_GRAPH_JSON_FORMAT,
        max_tokens=GENEROUS_REPLY,
    )


def choose_format(extract: Prompt, entity_types: str) -> Talk[Choice]:
    """Try records, and JSON if records fail, with one call each; return the choice.

    A format is good if the reply contains the names, or says properly that there is nothing: the
    entity types of a project may exclude the names. If neither format is good, the first one that
    can be read is chosen. If the server fails or does not answer in time, no format is chosen.
    """
    readable: list[Format] = []
    facts: list[str] = []
    for format in (RECORDS, JSON):
        (reply,) = yield (trial_request(format, extract, entity_types),)
        if reply.reason in PASSING_REASONS:
            return Choice(None, reply.message, answered=False)
        problem = _problem(format, reply)
        if problem:
            facts.append(f"{format}: {problem}")
            continue
        parsed = parsed_in(format, reply.text)
        if found(parsed) or not parsed.records:
            return Choice(format)
        readable.append(format)
    return Choice(readable[0]) if readable else Choice(None, "; ".join(facts))


def _problem(format: Format, reply: ChatReply) -> str:
    """Return the reason why the reply is unusable, or ""."""
    problem = failed(reply) or unreadable(parsed_in(format, reply.text), reply.text)
    return problem.message or problem.reason if problem else ""
