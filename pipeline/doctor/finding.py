"""What the doctor says of one thing, and how a thing that breaks becomes a finding."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from pipeline.errors import GraphmillError, in_words

Verdict = Literal["ok", "warning", "failed"]


@dataclass(frozen=True)
class Finding:
    """``area``: settings, space, snapshots, cluster, chat, embedding, rerank, stores or cache;
    ``what``: the thing, such as a model's name. ``action`` is empty where there is nothing to
    do."""

    area: str
    what: str
    verdict: Verdict
    fact: str
    action: str = ""


def guarded(area: str, what: str, look: Callable[[], Iterable[Finding]]) -> list[Finding]:
    """The findings of ``look``, as far as it came, and whatever it raised as one more."""
    found: list[Finding] = []
    try:
        found.extend(look())
    except Exception as error:  # noqa: BLE001 - whatever breaks is what was looked for
        found.append(broken(area, what, error))
    return found


def broken(area: str, what: str, error: Exception) -> Finding:
    """What the error says; its action where it is one of ours, which read "where: fact; next
    action"."""
    text = in_words(error)
    fact, separator, action = text.rpartition("; ")
    if isinstance(error, GraphmillError) and separator:
        return Finding(area, what, "failed", fact, action)
    return Finding(area, what, "failed", text, "mend what the message names, then look again")
