"""Charts as SVG: lines over k, and bars."""

from collections.abc import Mapping, Sequence
from xml.etree.ElementTree import Element

from pipeline.evaluation.markup import element

WIDTH, HEIGHT = 460, 270
LEFT, RIGHT, TOP, BOTTOM = 40, 12, 12, 34
BAR, LABEL, NUMBER = 22, 80, 90
COLOURS = 8
"""Classes c0 to c7 of the page's style."""


def line_chart(title: str, xs: Sequence[int], lines: Mapping[str, Sequence[float]]) -> Element:
    """Shares of 0 to 1 over the xs, which are set side by side at equal distances; a line a mode."""
    inner = WIDTH - LEFT - RIGHT
    places = [LEFT + inner * (place + 0.5) / len(xs) for place in range(len(xs))]
    grid = [_rule(share / 4) for share in range(5)]
    names = [_label(place, HEIGHT - 12, f"@{x}", "middle") for x, place in zip(xs, places, strict=True)]
    drawn = [_line(name, number % COLOURS, places, shares, xs) for number, (name, shares) in enumerate(lines.items())]
    return _figure(title, HEIGHT, [part for rule in grid for part in rule] + names + drawn)


def bar_chart(title: str, bars: Mapping[str, Sequence[float]], unit: str) -> Element:
    """A bar a mode, from 0; where a mode has two values the second, greater one is drawn pale behind the first."""
    most = max((max(values) for values in bars.values()), default=0) or 1
    inner = WIDTH - LABEL - NUMBER
    parts = []
    for number, (name, values) in enumerate(bars.items()):
        top = TOP + number * BAR
        for pale, value in enumerate(reversed(values), start=2 - len(values)):
            shade = f"c{number % COLOURS}" + ("" if pale else " pale")
            parts.append(
                element(
                    "rect", x=LABEL, y=top, width=_fixed(inner * value / most), height=BAR - 6, class_=f"bar {shade}"
                )
            )
        told = " / ".join(f"{value:,.0f}" for value in values)
        parts += [
            _label(LABEL - 8, top + 12, name, "end"),
            _label(LABEL + 6 + inner * max(values) / most, top + 12, f"{told} {unit}", "start"),
        ]
    return _figure(title, 2 * TOP + BAR * len(bars), parts)


def _figure(title: str, height: float, parts: Sequence[Element]) -> Element:
    drawing = element(
        "svg", element("title", title), *parts,
        viewBox=f"0 0 {WIDTH} {_fixed(height)}", role="img", xmlns="http://www.w3.org/2000/svg",
    )  # fmt: skip
    return element("figure", element("figcaption", title), drawing)


def _line(name: str, colour: int, places: Sequence[float], shares: Sequence[float], xs: Sequence[int]) -> Element:
    points = [(_fixed(place), _fixed(_height(share))) for place, share in zip(places, shares, strict=True)]
    dots = [
        element("circle", element("title", f"{name} @{k}: {share:.3f}"), cx=x, cy=y, r=3.5, class_=f"c{colour}")
        for k, share, (x, y) in zip(xs, shares, points, strict=True)
    ]
    drawn = element("polyline", points=" ".join(f"{x},{y}" for x, y in points), class_=f"line c{colour}")
    return element("g", drawn, *dots)


def _rule(share: float) -> list[Element]:
    y = _fixed(_height(share))
    rule = element("line", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y, class_="rule")
    return [rule, _label(LEFT - 6, _height(share) + 4, f"{share:.2f}", "end")]


def _height(share: float) -> float:
    return TOP + (HEIGHT - TOP - BOTTOM) * (1 - share)


def _label(x: float, y: float, text: str, anchor: str) -> Element:
    return element("text", text, x=_fixed(x), y=_fixed(y), text_anchor=anchor)


def _fixed(number: float) -> str:
    return f"{number:.1f}"
