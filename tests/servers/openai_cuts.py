"""Replies that end too early although the endpoint says "stop"."""

RECORD_END = "##\n"
FIELD = "<|>"
MARK = "<|COMPLETE|>"


def cut_inside(text: str) -> str:
    """Return the text up to a place inside the record in its middle; JSON is then never closed."""
    middle = len(text) // 2
    if MARK not in text:
        return text[:middle].rstrip(" .!?}]\"'0123456789")
    start = text.rfind(RECORD_END, 0, middle) + 1
    field = text.find(FIELD, max(start, middle)) if FIELD in text[middle:] else text.rfind(FIELD)
    return text[: field + len(FIELD)] + text[field + len(FIELD) :][:3].rstrip(".!?)\"'0123456789")


def cut_between(text: str) -> str:
    """Return the whole records of the first half, without the mark that ends a reply.

    A reply of one record keeps it and loses the mark only. JSON is cut after a record and is not
    closed.
    """
    ends = RECORD_END if MARK in text else "}, "
    middle = text.rfind(ends, 0, len(text) // 2 + 1)
    end = middle if middle > 0 else text.find(ends)
    if end < 0:
        return text.removesuffix(MARK) if MARK in text else text[:-2]
    return text[: end + 1] if ends == "}, " else text[:end]
