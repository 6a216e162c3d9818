"""Compare texts with the patterns of properties, in time that grows with the text alone.

The engine is that of Rust, which pydantic brings. Python's own engine goes back and tries again:
with ``(a+)+`` a text of 30 characters takes it hours, and no run would end.
"""

from functools import lru_cache

from pydantic_core import SchemaError, SchemaValidator, core_schema

LONGEST_REASON = 200
"""Characters of the engine's reason that a message shows."""


def find_pattern_fault(pattern: str) -> str:
    """Return why a pattern is no regular expression of this engine, or "" for one that is."""
    try:
        # Checked by itself too, for in a group "a)(b" would be one.
        _compile(pattern)
        _compile(_as_a_whole(pattern))
    except SchemaError as error:
        return _read_reason(str(error))
    return ""


def fits_pattern(pattern: str, text: str) -> bool:
    """Check that a text fits a valid pattern as a whole."""
    return _compile(_as_a_whole(pattern)).isinstance_python(text)


def _as_a_whole(pattern: str) -> str:
    return rf"\A(?:{pattern})\z"


@lru_cache(maxsize=256)
def _compile(pattern: str) -> SchemaValidator:
    return SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex"))


def _read_reason(message: str) -> str:
    """Return the engine's reason, without the lines that draw the place of the mistake."""
    reasons = [line.strip() for line in message.splitlines() if "error: " in line or "size" in line]
    reason = reasons[-1].removeprefix("error: ").removeprefix("SchemaError: ") if reasons else ""
    return reason[:LONGEST_REASON]
