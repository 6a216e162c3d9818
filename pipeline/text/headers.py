"""The text of a text unit with its header, as it is embedded."""


def text_with_header(header: str, text: str) -> str:
    """Return the header, a blank line and the text; the text alone if the header is empty."""
    return f"{header}\n\n{text}" if header else text
