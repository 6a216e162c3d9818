"""The reasons of rejects: a closed list, extended by those that a verb of the user's own
declares."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from pipeline.errors import DataError

Loss = Literal["lost", "decided"]
"""The class of a reject. ``lost``: something is missing that should be there; it counts towards
``max_reject_ratio``. ``decided``: a rule left the row out and nothing went wrong; it is listed and
never counts.
"""


@dataclass(frozen=True)
class Reason:
    """A reason of rejects: its meaning, as people read it, and the class of its rejects."""

    meaning: str
    loss: Loss = "lost"


def decided(meaning: str) -> Reason:
    """Return a reason whose rejects are a decision, not a loss."""
    return Reason(meaning, "decided")


def lost(meaning: str) -> Reason:
    """Return a reason whose rejects are a loss."""
    return Reason(meaning, "lost")


OF_OTHER_INDEXES: Mapping[str, Reason] = {
    "duplicate_row": decided("a row of a table, or a mail of a mailbox, that is there before"),
    "incomplete": lost(
        "a row without its id, name or text (read_graphrag), or its kind or names (merge_graphs)"
    ),
    "dangling": lost(
        "a row that names a document, text unit or entity that is not there (read_graphrag)"
    ),
    "unfinished": lost("a document that the other tool has not finished (read_lightrag)"),
    "not_imported": decided(
        "a file or a row of another index that the import does not take (read_lightrag,"
        " read_graphrag)"
    ),
    "changed": decided(
        "a community of another index, or its report, that fits the graph no longer"
        " (extend_communities, keep_reports)"
    ),
    "one_name": decided(
        "names that another index keeps apart and that are one entity here (read_lightrag)"
    ),
}
"""Reasons of rows and files of an index that another tool has built, and of tables."""

REASONS: Mapping[str, Reason] = {
    # of documents and their records
    "unsupported": decided("a file of a kind that is not read"),
    "needs_docs": decided(
        "a file of a kind that is read with the extra `docs`, which is not installed"
    ),
    "no_text_layer": lost(
        "a page that is a picture, or a file of such pages alone: not read without the extra `ocr`"
    ),
    "attachment": decided("the attachments of a mail, which are not read; it is of kind skipped"),
    "unreadable": lost("a file that may not be opened, or is no regular file"),
    "unmounted": lost(
        "a folder that was a mount point in the last run, and is empty and none any more"
    ),
    "io_error": lost(
        "a file, or a folder, whose reading broke off; it is read again by the next run"
    ),
    "in_part": lost(
        "a file that was read but for some of its records, which have rejects of their own"
    ),
    "kept_unread": lost(
        "a document of the last run, kept as it was: its file is there but was not read whole"
    ),
    "outside": decided(
        "a link out of the input folder, a path or link out of an archive, a link or repository"
        " within one of git"
    ),
    "lock_file": decided("an editor's lock or backup file"),
    "too_large": lost("a file above input.max_file_mb, or a picture above 20 MB"),
    "too_slow": lost("a file whose conversion takes longer than input.convert_seconds"),
    "too_much_memory": lost("a file whose conversion takes more memory than input.convert_mb"),
    "crashed": lost("a file whose conversion ended its process"),
    "not_converted": decided("a file that is to be converted yet: of a plan only"),
    "encoding": lost("a file that looks like writing in no encoding"),
    "encoding_guessed": decided(
        "a file that was read in its likeliest encoding, which may be another: of kind recovered"
    ),
    "no_column": decided(
        "a column in `metadata` of an input that its query has never given: of kind recovered"
    ),
    "duplicate_id": lost("a record with the id of one before it"),
    **OF_OTHER_INDEXES,
    # of documents and of replies
    "empty": lost("no text in the document; nothing in the reply"),
    "parse": lost("the document, or the whole reply, cannot be read"),
    # of replies
    "truncated": lost(
        "the reply was cut (at the output limit, in a record, before its JSON closes), also that to"
        " half of the text"
    ),
    "unread": lost(
        "the endpoint counted far fewer tokens than the text has: the model has read a part of it"
    ),
    "unended": decided(
        "a reply without the end mark that the prompt asks for: it may have been cut between two"
        " records"
    ),
    "refusal": lost("the model declined"),
    "content_filter": lost("the endpoint's filter stopped the request or the reply"),
    # of rows that stand
    "unrefreshed": decided(
        "a report that stands though a little of what it was made of has changed (keep_within)"
    ),
    "purged": lost(
        "a reply that a purge took away with its document, or would have had to ask for; the next"
        " run asks"
    ),
    "waiting": decided(
        "a reply that a run without calls did not ask for (corrections apply); the next run asks"
    ),
    # of calls
    "timeout": lost("no answer within the model's timeout"),
    "server_error": lost("the endpoint failed, or the connection broke, at every attempt"),
    "too_long": lost("the prompt is longer than the model's context, or than one call may be"),
    "bad_request": lost("the endpoint refused the request"),
    "expired": lost("a batch ended before it came to this request"),
    # of parts of replies: of kind "record"
    "record": lost("an entity, relationship or claim that cannot be read in a reply that can"),
    "ungrounded": decided(
        "a name that does not stand in its text (extract_graph: ungrounded: drop)"
    ),
    "self_loop": decided("a relationship of an entity with itself"),
    "orphan": decided(
        "a relationship with an end that nothing describes (merge_graphs: orphans: drop)"
    ),
    "not_in_ontology": decided(
        "a type that ontology.yaml does not have, an entity without one of its types, or a"
        " relationship with such an end"
    ),
    "not_in_patterns": decided(
        "a relationship whose ends fit none of the patterns of ontology.yaml, in either direction"
    ),
    # of properties; the entity or the relationship itself stays
    "unknown_property": decided("a property that ontology.yaml does not have for the type"),
    "bad_value": decided(
        "a value of a property that is not what ontology.yaml says: no number, no date, no value of"
        " the enum, or not in the pattern"
    ),
    "wrong_unit": decided("a number in a unit that does not convert to that of ontology.yaml"),
    "missing_property": decided("an entity or a relationship without a property that is required"),
}
"""Reason -> its meaning and its class."""

PASSING_REASONS = frozenset({"timeout", "server_error", "expired", "io_error", "kept_unread"})
"""Reasons of errors that may pass: another try may succeed, so a step with such a reject is not
reused."""

NEVER_LOST = frozenset({"recovered", "skipped", "unrefreshed", "unended"})
"""Kinds of rejects that are no losses, whatever their reason is."""

EXTRAS: Mapping[str, str] = {
    "needs_docs": "needs the extra 'docs'",
    "no_text_layer": "a scan; needs the extra 'ocr'",
}
"""Reason -> a note on the extra that would have prevented the reject."""


def loss_of(kind: str, reason: str, own: Mapping[str, Reason]) -> Loss:
    """Return the class of a reject. ``own``: the reasons that the step's verb declares."""
    if kind in NEVER_LOST:
        return "decided"
    known = REASONS.get(reason) or own.get(reason)
    return known.loss if known else "lost"


def refuse_unknown_reasons(reasons: Iterable[str], where: str, own: Iterable[str] = ()) -> None:
    """Raise DataError for a reason that is neither in the list nor in the verb's ``own``."""
    unknown = sorted(set(reasons) - set(REASONS) - set(own))
    if unknown:
        raise DataError(
            f"{where}: rejects have reasons that nothing declares: {', '.join(unknown)}; declare"
            " them by @verb(reasons={...}), or take one of `pipeline.contract.reasons`"
        )
