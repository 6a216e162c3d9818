"""The finding of an examination, also of one that raised an error."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from pipeline.errors import GraphmillError, in_words

Verdict = Literal["ok", "warning", "failed"]


@dataclass(frozen=True)
class Finding:
    """The result of one examination.

    ``area`` is settings, space, snapshots, cluster, chat, embedding, rerank, stores or cache.
    ``what`` names the subject, such as a model. ``action`` is empty if there is nothing to do.
    """

    area: str
    what: str
    verdict: Verdict
    fact: str
    action: str = ""


def guarded(area: str, what: str, examine: Callable[[], Iterable[Finding]]) -> list[Finding]:
    """Return the findings of ``examine``, and one more for an error that it raised."""
    found: list[Finding] = []
    try:
        found.extend(examine())
    except Exception as error:  # noqa: BLE001 - any error is a finding
        found.append(broken(area, what, error))
    return found


def finding_of(area: str, what: str, verdict: Verdict, message: str) -> Finding:
    """Return a finding whose message reads "fact; next action"; it may lack the action."""
    fact, _, action = message.rpartition("; ")
    return Finding(area, what, verdict, fact or action, action if fact else "")


def broken(area: str, what: str, error: Exception) -> Finding:
    """Return the finding on an error.

    Messages of our own errors read "where: fact; next action", and their action becomes that of the
    finding.
    """
    text = in_words(error)
    fact, separator, action = text.rpartition("; ")
    if isinstance(error, GraphmillError) and separator:
        return Finding(area, what, "failed", fact, action)
    return Finding(area, what, "failed", text, "correct what the message names, then run it again")
