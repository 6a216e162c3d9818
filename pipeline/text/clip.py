"""Cut a sentence to the length of a description."""

MAX_DESCRIPTION = 300
"""The greatest length of a description, in characters."""


def clip(sentence: str) -> str:
    """Return the sentence on one line, cut at the end of a word if it is too long."""
    # Runs of white space are joined, so more characters than the limit are looked at.
    beginning = sentence[: 2 * MAX_DESCRIPTION]
    text = " ".join(beginning.split())
    if len(text) <= MAX_DESCRIPTION:
        return text
    last_space = text.rfind(" ", MAX_DESCRIPTION // 2, MAX_DESCRIPTION)
    has_word_end = last_space > 0
    # Without the end of a word in the second half, the text is cut within a word.
    cut = last_space if has_word_end else MAX_DESCRIPTION - 1
    return text[:cut].rstrip(" ,;:") + "…"
