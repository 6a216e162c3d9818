"""Write time spans, times, numbers and prices as people read them."""

from datetime import datetime


def span(seconds: float) -> str:
    """Return a number of seconds in at most two units, such as "2 h 5 min"."""
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
    """Return a time in ISO 8601 as "2024-01-31 08:00:00 UTC"; "unknown" for an empty text."""
    return f"{datetime.fromisoformat(iso):%Y-%m-%d %H:%M:%S} UTC" if iso else "unknown"


def number(value: float) -> str:
    """Return a number with four significant digits; whole and large ones without decimals."""
    is_whole = float(value).is_integer() or abs(value) >= 1000
    return f"{value:,.0f}" if is_whole else f"{value:,.4g}"


def price(cost: float | None) -> str:
    """Return a price with four decimals, in the currency of the models' ``price``; "" for None."""
    return "" if cost is None else f"{cost:,.4f}"
