"""Why a row, or a part of one, is in the table of rejects: a closed list, beside what own verbs declare."""

from collections.abc import Iterable, Mapping

from pipeline.errors import DataError

REASONS: Mapping[str, str] = {
    # of documents and their records
    "unsupported": "a file of a kind that is not read",
    "needs_docs": "a file of a kind that is read with the extra `docs`, which is not installed",
    "no_text_layer": "a page that is a picture, or a file of such pages alone: not read without the extra `ocr`",
    "unreadable": "a file that may not be opened, or is no regular file",
    "unmounted": "a folder that was a mount point in the last run, and is empty and none any more",
    "io_error": "a file, or a folder, whose reading broke off; it is read again by the next run",
    "in_part": "a file that was read but for some of its records, which have rejects of their own",
    "kept_unread": "a document of the last run, kept as it was: its file is there but was not read whole",
    "outside": "a link that leads out of the input folder",
    "lock_file": "an editor's lock or backup file",
    "too_large": "a file above input.max_file_mb",
    "too_slow": "a file whose conversion takes longer than input.convert_seconds",
    "too_much_memory": "a file whose conversion takes more memory than input.convert_mb",
    "crashed": "a file whose conversion ended its process",
    "not_converted": "a file that is to be converted yet: of a plan only",
    "encoding": "a file that looks like writing in no encoding",
    "encoding_guessed": "a file that was read in its likeliest encoding, which may be another: of kind recovered",
    "duplicate_id": "a record with the id of one before it",
    # of rows of another index
    "incomplete": "a row without its id, name or text (read_graphrag), or its kind or names (merge_graphs)",
    "dangling": "a row that names a document, text unit or entity that is not there (read_graphrag)",
    # of documents and of replies
    "empty": "no text in the document; nothing in the reply",
    "parse": "the document, or the whole reply, cannot be read",
    # of replies
    "truncated": "the reply was cut off at the output limit, and so was that to half of the text, or to less",
    "refusal": "the model declined",
    "content_filter": "the endpoint's filter stopped the request or the reply",
    # of rows that stand
    "unrefreshed": "a report that stands though a little of what it was made of has changed (keep_within)",
    # of calls
    "timeout": "no answer within the model's timeout",
    "server_error": "the endpoint failed, or the connection broke, at every attempt",
    "too_long": "the prompt is longer than the model's context, or than one call may be",
    "bad_request": "the endpoint refused the request",
    "expired": "a batch ended before it came to this request",
    # of parts of replies: of kind "record"
    "record": "an entity, relationship or claim that cannot be read in a reply that can",
    "ungrounded": "a name that does not stand in its text (extract_graph: ungrounded: drop)",
    "self_loop": "a relationship of an entity with itself",
    "orphan": "a relationship with an end that nothing describes (merge_graphs: orphans: drop)",
}
"""Reason -> what it means."""

EXTRAS: Mapping[str, str] = {"needs_docs": "needs the extra 'docs'", "no_text_layer": "a scan; needs the extra 'ocr'"}
"""Reason -> the extra whose absence it is."""


def refuse_unknown_reasons(reasons: Iterable[str], where: str, own: Iterable[str] = ()) -> None:
    """Raises DataError for a reason that is not in the list, nor one of the verb's ``own``."""
    unknown = sorted(set(reasons) - set(REASONS) - set(own))
    if unknown:
        raise DataError(
            f"{where}: rejects have reasons that nothing declares: {', '.join(unknown)}; declare them by "
            "@verb(reasons={...}), or take one of `pipeline.contract.reasons`"
        )
