"""One clear line out of a failed validation."""

import difflib
from collections.abc import Iterable

from pydantic import ValidationError


def explain(where: str, error: ValidationError, known: Iterable[str]) -> str:
    """The first fault, with the nearest right key for an unknown one. Values are not shown: one may be a secret."""
    fault = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(str(part) for part in fault["loc"])
    if fault["type"] != "extra_forbidden":
        return f"{where}: {place}: {fault['msg']}"
    names = sorted(known)
    near = difflib.get_close_matches(str(fault["loc"][-1]), names, n=1, cutoff=0.5)
    hint = f"did you mean '{near[0]}'?" if near else f"known keys: {', '.join(names)}"
    return f"{where}: unknown key '{place}'; {hint}"
