"""Spans, moments and numbers as people read them."""

from datetime import datetime


def span(seconds: float) -> str:
    """So long, in its two largest units at most."""
    whole = max(round(seconds), 0)
    for unit, size, smaller, part in (
        ("d", 86_400, "h", 3_600),
        ("h", 3_600, "min", 60),
        ("min", 60, "s", 1),
    ):
        if whole >= size:
            return f"{whole // size} {unit} {whole % size // part} {smaller}"
    return f"{whole} s"


def moment(iso: str) -> str:
    """ISO 8601 for people; "unknown" for nothing."""
    return f"{datetime.fromisoformat(iso):%Y-%m-%d %H:%M:%S} UTC" if iso else "unknown"


def number(value: float) -> str:
    """A whole one whole, others with the digits that tell them apart."""
    return f"{value:,.0f}" if float(value).is_integer() or abs(value) >= 1000 else f"{value:,.4g}"


def price(cost: float | None) -> str:
    """In the currency of ``price``; "" without one."""
    return "" if cost is None else f"{cost:,.4f}"
