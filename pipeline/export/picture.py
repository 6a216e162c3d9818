"""Draws a part of the graph as one SVG for a notebook, without scripts, links or loaded files."""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pandas as pd

from pipeline.errors import UsageError
from pipeline.export.graph import ENDS, graph_of, without_parallels
from pipeline.export.source import GRAPH, ExportSource
from pipeline.pages.environment import environment, texts
from pipeline.text.ids import entity_id

if TYPE_CHECKING:
    import networkx as nx

NODES, MOST_NODES = 100, 500
"""The default and the largest number of entities in a picture. A larger one would be illegible, and
its layout would take seconds."""
WIDTH, HEIGHT, MARGIN, FOOT = 960, 600, 40, 30
COLOURS = ("#4e79a7", "#f28e2b", "#59a14f", "#b07aa1", "#e15759", "#76b7b2", "#9c755f", "#edc948")
OTHERS = "#bab0ac"
LONGEST_LABEL, LONGEST_TEXT = 28, 300
CHARACTER, LINE = 6.8, 14
"""About the width and the height of a character, from which the space of a label is estimated."""
SEED = 20240401
"""Any number would do; it is fixed, so that a graph always has the same picture."""


class Spot(NamedTuple):
    """The circle of an entity.

    ``label``: its text, centred at ``label_x``; "" if there is no room. ``tooltip``: the text that
    a browser shows at the pointer. ``focus``: whether the picture is about this entity.
    """

    x: float
    y: float
    radius: float
    colour: str
    label: str
    label_x: float
    tooltip: str
    focus: bool


class Line(NamedTuple):
    """The line of a relationship. ``tooltip``: the text that a browser shows at the pointer."""

    start: Spot
    end: Spot
    tooltip: str


@dataclass(frozen=True)
class Picture:
    """A drawing of entities, which a notebook shows as the last value of a cell.

    ``graph``: the drawn graph, as ``Project.graph`` returns it, each node with ``x`` and ``y``.
    ``focus``: the id of the entity that the picture is about, or "". ``left_out``: the number of
    entities beyond the limit of the picture.
    """

    graph: "nx.DiGraph"
    title: str
    focus: str = ""
    left_out: int = 0

    @property
    def svg(self) -> str:
        """The picture as SVG. Characters of names and texts that mean something in SVG are
        escaped."""
        types_of_nodes = [attributes["type"] for _, attributes in self.graph.nodes(data=True)]
        # The most frequent types get a colour of their own.
        types = pd.Series(types_of_nodes, dtype=object).value_counts()
        colours: dict[str, str] = dict(zip(types.index, COLOURS, strict=False))
        legend = list(colours.items())
        if len(types) > len(colours):
            legend.append((texts()["picture"]["others"], OTHERS))
        spots = _place_spots(self.graph, self.focus, colours)
        lines = [
            Line(spots[one], spots[other], _describe_edge(attributes))
            for one, other, attributes in self.graph.edges(data=True)
        ]
        template = environment(Path(__file__).parent).get_template("picture.svg.j2")
        return template.render(
            title=self.title,
            left_out=self.left_out,
            width=WIDTH,
            height=HEIGHT,
            foot=FOOT,
            legend=legend,
            spots=spots.values(),
            lines=lines,
        )

    def _repr_html_(self) -> str:
        return self.svg


def find_entity(source: ExportSource, name: str) -> str | None:
    """Return the id of an entity by its name or id; None if there is none."""
    source.require(*GRAPH)
    wanted = {name, entity_id(name)}
    for entities in source.batches("entities", ["id"]):
        found = entities["id"][entities["id"].isin(wanted)]
        if not found.empty:
            return str(found.iloc[0])
    return None


def neighbourhood(source: ExportSource, entity: str, hops: int) -> list[str]:
    """Return the ids of an entity and of the entities within ``hops`` relationships of it.

    The nearest come first. Those at the same distance are sorted by the weight of their
    relationships to nearer ones, heaviest first, then id.
    """
    near, far = ENDS
    links = pd.concat(source.batches("relationships", [*ENDS, "weight"]))
    turned = links.rename(columns={near: far, far: near})
    # Both directions of each relationship, so that the first column is always the nearer end.
    both_ways = pd.concat([links, turned])
    steps = both_ways.groupby(ENDS)["weight"].sum().reset_index()
    reached = [entity]
    border = [entity]
    for _ in range(hops):
        begins_at_border = steps[near].isin(border)
        leads_back = steps[far].isin(reached)
        outward = steps[begins_at_border & ~leads_back]
        weights = outward.groupby(far)["weight"].sum()
        # Sorted by id first: a stable sort by weight keeps that order among equal weights.
        by_id = weights.sort_index()
        heaviest_first = by_id.sort_values(ascending=False, kind="stable")
        border = heaviest_first.index.tolist()
        reached += border
    return reached


def picture_of(
    source: ExportSource,
    ids: list[str],
    title: str,
    most: int,
    focus: str = "",
    only: Collection[str] | None = None,
) -> Picture:
    """Return a picture of the first ``most`` of the entities ``ids``.

    ``only``: the ids of the relationships to draw, by default all between these entities.
    ``focus``: the id of the entity that the picture is about. Raises UsageError for more than
    MOST_NODES.
    """
    if not 1 <= most <= MOST_NODES:
        raise UsageError(
            f"picture: most: {most}; draw 1 to {MOST_NODES} entities, or take project.graph()"
        )
    graph = without_parallels(graph_of(source, ids[:most], stated=False))
    if only is not None:
        # A list, since a graph cannot change while its edges are read.
        others = [(start, end) for start, end, id in graph.edges(data="id") if id not in only]
        graph.remove_edges_from(others)
    _lay_out(graph)
    n_left_out = max(0, len(ids) - most)
    return Picture(graph, title, focus, n_left_out)


def _lay_out(graph: "nx.DiGraph") -> None:
    """Give each node x and y, unless the workflow has placed all of them.

    The seed makes networkx compute the same layout every time.
    """
    import networkx as nx

    are_placed = [{"x", "y"} <= attributes.keys() for _, attributes in graph.nodes(data=True)]
    if all(are_placed):
        return
    # The options are a mapping because the type stubs do not know "method".
    options: dict[str, Any] = {"seed": SEED, "method": "force"}
    layout = nx.spring_layout(nx.Graph(graph), **options)
    for node, (x, y) in layout.items():
        graph.nodes[node].update(x=float(x), y=float(y))


def _place_spots(graph: "nx.DiGraph", focus: str, colours: dict[str, str]) -> dict[str, Spot]:
    """Return the circle of each node by its id, in the picture's coordinates.

    Labels that would overlap an earlier one are left out. The focus comes first, then nodes of the
    highest degree.
    """
    nodes = pd.DataFrame.from_dict(dict(graph.nodes(data=True)), orient="index")
    if nodes.empty:
        return {}
    nodes = nodes.assign(focus=nodes.index == focus, x=_spread(nodes["x"]), y=_spread(nodes["y"]))
    nodes = nodes.sort_values(["focus", "degree"], ascending=False, kind="stable")
    labels: list[_Label] = []
    spots: dict[str, Spot] = {}
    for id, node in nodes.iterrows():
        x = MARGIN + (WIDTH - 2 * MARGIN) * node["x"]
        y = MARGIN + (HEIGHT - FOOT - 2 * MARGIN) * node["y"]
        radius = 4 + min(float(node["degree"]) ** 0.5, 12)
        text = _shorten_text(str(node["name"]), LONGEST_LABEL)
        half_width = CHARACTER * len(text) / 2
        # At the side of the picture, a label is moved inwards.
        label_x = min(max(x, half_width), WIDTH - half_width)
        label = _Label(label_x, y - radius - 3, half_width)
        has_room = not any(label.overlaps(other) for other in labels)
        if has_room:
            labels.append(label)
        description = _shorten_text(str(node["description"]), LONGEST_TEXT)
        spots[str(id)] = Spot(
            x=x,
            y=y,
            radius=radius,
            colour=colours.get(node["type"], OTHERS),
            label=text if has_room else "",
            label_x=label_x,
            tooltip=f"{node['name']} ({node['type']})\n{description}",
            focus=bool(node["focus"]),
        )
    return spots


class _Label(NamedTuple):
    """The place of a label: the middle of its line, and half of its width."""

    x: float
    y: float
    half_width: float

    def overlaps(self, other: "_Label") -> bool:
        is_beside = abs(self.x - other.x) > self.half_width + other.half_width
        is_above_or_below = abs(self.y - other.y) > LINE
        return not is_beside and not is_above_or_below


def _spread(places: pd.Series) -> pd.Series:
    """Scale coordinates to 0 to 1, half by their place and half by their order.

    The middle of a layout is crowded; the order spreads it.
    """
    in_the_middle = places * 0 + 0.5
    if len(places) == 1:
        return in_the_middle
    least = places.min()
    width = places.max() - least
    by_place = (places - least) / width if width else in_the_middle
    # Ranks begin at 1.
    order = places.rank(method="first") - 1
    by_order = order / (len(places) - 1)
    return (by_place + by_order) / 2


def _describe_edge(attributes: dict[str, Any]) -> str:
    """Return the text of a line's tooltip."""
    ends = f"{attributes['source_name']} - {attributes['target_name']}"
    description = _shorten_text(attributes["description"], LONGEST_TEXT)
    return f"{ends}: {attributes['keywords']}\n{description}"


def _shorten_text(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
