"""Cut a sentence to the length of a description."""

MAX_DESCRIPTION = 300
"""The greatest length of a description, in characters."""


def clip(sentence: str) -> str:
    """Return the sentence on one line, cut at the end of a word if it is too long."""
    text = " ".join(sentence[: 2 * MAX_DESCRIPTION].split())
    if len(text) <= MAX_DESCRIPTION:
        return text
    cut = text.rfind(" ", MAX_DESCRIPTION // 2, MAX_DESCRIPTION)
    return text[: cut if cut > 0 else MAX_DESCRIPTION - 1].rstrip(" ,;:") + "…"
