"""Find decisions that contradict each other."""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pipeline.corrections.decisions import (
    AddStatement,
    Decision,
    DeleteEntity,
    DeleteProperty,
    DeleteStatement,
    DescribeEntity,
    DescribeStatement,
    Different,
    Rename,
    RetypeStatement,
    Same,
    SetProperty,
    SetType,
    StatementDecision,
    TurnStatement,
)
from pipeline.corrections.values import property_key
from pipeline.text.ids import match_key

DELETED = "\x00deleted"
"""The outcome of decisions that delete what they are about. No text of a decision has its first
character."""


@dataclass(frozen=True)
class Conflict:
    """Decisions that cannot all be followed. ``fact`` says why, as the end of a sentence."""

    decisions: tuple[Decision, ...]
    fact: str


def find_conflict(decisions: Sequence[Decision]) -> Conflict | None:
    """Return the first contradiction among the decisions, or None if there is none."""
    return (
        _find_two_outcomes(decisions)
        or _find_two_outcomes_of_a_type(decisions)
        or _find_cycle(decisions)
        or _find_change_of_deleted(decisions)
        or _find_pins_against_names(decisions)
    )


def _find_two_outcomes(decisions: Sequence[Decision]) -> Conflict | None:
    """Return two decisions that give one thing different outcomes."""
    decided: dict[Hashable, tuple[Hashable, Decision]] = {}
    final = final_keys(decisions)
    for decision in decisions:
        for subject, outcome in _list_outcomes(decision, final):
            known_outcome, known_decision = decided.setdefault(subject, (outcome, decision))
            if known_outcome != outcome:
                return Conflict((known_decision, decision), "they contradict each other")
    return None


def _find_two_outcomes_of_a_type(decisions: Sequence[Decision]) -> Conflict | None:
    """Return a decision on all statements of two ends, and another one on those of a type.

    Those of a type may be deleted alone: the other decision is about the rest then.
    """
    statements = [each for each in decisions if isinstance(each, StatementDecision)]
    final = final_keys(decisions)
    of_all_types: dict[tuple[str, ...], tuple[str, Decision]] = {}
    for decision in statements:
        if not decision.type:
            for subject, outcome in _list_statement_outcomes(decision, final):
                of_all_types[subject] = outcome, decision
    for decision in statements:
        for subject, outcome in _list_statement_outcomes(decision, final):
            known_outcome, known_decision = of_all_types.get((*subject[:-1], ""), (outcome, None))
            if known_decision and known_outcome != outcome != DELETED:
                return Conflict((known_decision, decision), "they contradict each other")
    return None


def _list_outcomes(
    decision: Decision, final: dict[str, str]
) -> Iterator[tuple[Hashable, Hashable]]:
    """Yield what the decision is about, and what it makes of it.

    Two decisions with one subject must agree. ``final`` maps match keys to those after renaming.
    """
    match decision:
        case Rename():
            scope = (decision.type.casefold(), decision.document_id, decision.quote)
            yield ("identity", match_key(decision.entity), scope), match_key(decision.to)
        case DeleteEntity():
            scope = (decision.type.casefold(), decision.document_id, decision.quote)
            yield ("identity", match_key(decision.entity), scope), DELETED
        case SetType():
            yield ("type", _follow(decision.entity, final)), decision.to
        case DescribeEntity() if not decision.append:
            yield ("description", _follow(decision.entity, final)), decision.description
        case SetProperty():
            yield _name_property(decision, final), decision.value
        case DeleteProperty() if not (decision.value or decision.document or decision.quote):
            yield _name_property(decision, final), DELETED
        case StatementDecision():
            yield from _list_statement_outcomes(decision, final)
        case Same():
            yield ("pair", *sorted((match_key(decision.a), match_key(decision.b)))), "same"
        case Different():
            yield ("pair", *sorted((match_key(decision.a), match_key(decision.b)))), "different"


def _list_statement_outcomes(
    decision: StatementDecision, final: dict[str, str]
) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield what of a statement the decision is about, and what it makes of it.

    A subject is the aspect, the ends and the type.
    """
    match decision:
        case AddStatement():
            yield ("existence", *_name_statement(decision, final)), "added"
        case DeleteStatement():
            subject = _name_statement(decision, final)
            yield ("existence", *subject), DELETED
            yield ("direction", *subject), DELETED
            yield ("statement type", *subject), DELETED
            yield ("statement description", *subject), DELETED
        case TurnStatement():
            yield ("direction", *_name_statement(decision, final)), "turned"
        case RetypeStatement():
            yield ("statement type", *_name_statement(decision, final)), decision.to
        case DescribeStatement() if not decision.append:
            subject = _name_statement(decision, final)
            yield ("statement description", *subject), decision.description


def final_keys(decisions: Sequence[Decision]) -> dict[str, str]:
    """Map the match key of each name that is renamed everywhere to that of its new name."""
    return {
        match_key(decision.entity): match_key(decision.to)
        for decision in decisions
        if isinstance(decision, Rename) and is_unrestricted(decision)
    }


def is_unrestricted(decision: Rename | DeleteEntity) -> bool:
    """Check that the decision holds for every type, document and text unit."""
    return not (decision.type or decision.document or decision.quote)


def _follow(name: str, final: dict[str, str]) -> str:
    """Return the match key of a name after renaming."""
    key = match_key(name)
    return final.get(key, key)


def _name_property(
    decision: SetProperty | DeleteProperty, final: dict[str, str]
) -> tuple[str, str, str]:
    """Return the subject of a decision about a property: the entity after renaming, and its key."""
    return "property", _follow(decision.entity, final), property_key(decision.property)


def _name_statement(decision: StatementDecision, final: dict[str, str]) -> tuple[str, str, str]:
    """Return the ends after renaming, and the type, of the statements that are decided about."""
    source, target = _follow(decision.source, final), _follow(decision.target, final)
    return source, target, decision.type.casefold()


def _find_cycle(decisions: Sequence[Decision]) -> Conflict | None:
    """Return renamings that lead from a name back to itself."""
    renamings = {
        match_key(decision.entity): decision
        for decision in decisions
        if isinstance(decision, Rename) and is_unrestricted(decision)
    }
    followed: set[str] = set()
    for first in renamings:
        # A dictionary keeps the order of the path and finds a repeat at once.
        path: dict[str, Decision] = {}
        key = first
        # A name that was followed before leads to no circle, so each name is followed once.
        while (decision := renamings.get(key)) is not None and key not in followed:
            followed.add(key)
            path[key] = decision
            key = match_key(decision.to)
            if key in path:
                names = list(path)
                cycle = names[names.index(key) :]
                # In a circle of one, the new name has the same key: only the spelling changes.
                if len(cycle) > 1:
                    return Conflict(tuple(path[each] for each in cycle), "they rename in a circle")
    return None


def _find_change_of_deleted(decisions: Sequence[Decision]) -> Conflict | None:
    """Return a decision that deletes an entity and one that changes the same entity."""
    final = final_keys(decisions)
    deleted = {
        _follow(decision.entity, final): decision
        for decision in decisions
        if isinstance(decision, DeleteEntity) and is_unrestricted(decision)
    }
    for decision in decisions:
        match decision:
            case SetType() | DescribeEntity() | SetProperty():
                names = (decision.entity,)
            case AddStatement() | TurnStatement() | RetypeStatement() | DescribeStatement():
                names = (decision.source, decision.target)
            case Rename():
                names = (decision.to,)
            case _:
                names = ()
        for name in names:
            if deletion := deleted.get(_follow(name, final)):
                fact = f"the first deletes '{name}', which the other one needs"
                return Conflict((deletion, decision), fact)
    return None


def _find_pins_against_names(decisions: Sequence[Decision]) -> Conflict | None:
    """Return a pair that is decided to be different, and what makes the names one entity."""
    if not any(isinstance(decision, Different) for decision in decisions):
        # Every run reads corrections; most have no such pair, and need no library for it.
        return None
    import networkx as nx

    graph = nx.Graph()
    for decision in decisions:
        match decision:
            case Same():
                graph.add_edge(match_key(decision.a), match_key(decision.b), decision=decision)
            case Rename() if is_unrestricted(decision):
                graph.add_edge(
                    match_key(decision.entity), match_key(decision.to), decision=decision
                )
            case _:
                pass
    for decision in decisions:
        if not isinstance(decision, Different):
            continue
        one, two = match_key(decision.a), match_key(decision.b)
        if one in graph and two in graph and nx.has_path(graph, one, two):
            path = nx.shortest_path(graph, one, two)
            joining = [graph.edges[pair]["decision"] for pair in pairwise(path)]
            fact = f"they make '{decision.a}' and '{decision.b}' one entity and two"
            return Conflict((*dict.fromkeys(joining), decision), fact)
    return None
