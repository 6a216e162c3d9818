"""Make rows of REJECTS."""

LONGEST_MESSAGE = 300
"""Characters of a reject's message; the rest is cut off."""


def make_reject(row_id: str, reason: str, message: str, kind: str = "record") -> dict[str, str]:
    """Return a row of REJECTS; the engine adds the step. ``kind`` says what is missing."""
    return {
        "step": "",
        "row_id": row_id,
        "kind": kind,
        "reason": reason,
        "message": message[:LONGEST_MESSAGE],
    }
