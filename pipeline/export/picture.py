"""Draw a part of the graph as one SVG for a notebook, without scripts, links or loaded files."""

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

MOST_NODES = 500
"""The largest number of entities in a picture. A larger one would be illegible, and its layout
would take seconds."""
WIDTH, HEIGHT, MARGIN, FOOT = 960, 600, 40, 30
"""Sizes in the units of the SVG, as are the next ones; FOOT is the height of the legend."""
SMALLEST_RADIUS, MOST_GROWTH = 4, 12
"""The radius of a circle: it grows with the degree of its entity, up to a limit."""
LABEL_GAP = 3
"""The space between a circle and its label."""
CHARACTER_WIDTH, CHARACTER_HEIGHT = 6.8, 14
"""About the size of a character, from which the space of a label is estimated."""
COLOURS = ("#4e79a7", "#f28e2b", "#59a14f", "#b07aa1", "#e15759", "#76b7b2", "#9c755f", "#edc948")
OTHERS = "#bab0ac"
LONGEST_LABEL, LONGEST_TEXT = 28, 300
"""Characters of a label, and of a description in a tooltip."""
SEED = 20240401
"""Any number would do; it is fixed, so that a graph always has the same picture."""


class Circle(NamedTuple):
    """The circle of an entity.

    ``label``: its text, centred at ``label_x``; "" if there is no room. ``tooltip``: the text that
    a browser shows at the pointer. ``is_focus``: whether the picture is about this entity.
    """

    x: float
    y: float
    radius: float
    colour: str
    label: str
    label_x: float
    tooltip: str
    is_focus: bool


class Line(NamedTuple):
    """The line of a relationship. ``tooltip``: the text that a browser shows at the pointer."""

    start: Circle
    end: Circle
    tooltip: str


@dataclass(frozen=True)
class Picture:
    """A drawing of entities, which a notebook shows as the last value of a cell.

    ``graph``: the drawn graph, as ``Project.graph`` returns it, each node with ``x`` and ``y``.
    ``focus_id``: the id of the entity that the picture is about, or "". ``left_out``: the number of
    entities beyond the limit of the picture.
    """

    graph: "nx.DiGraph"
    title: str
    focus_id: str = ""
    left_out: int = 0

    @property
    def svg(self) -> str:
        """The picture as SVG. The template escapes characters with a meaning in SVG."""
        types_of_nodes = [attributes["type"] for _, attributes in self.graph.nodes(data=True)]
        # The most frequent types get a colour of their own.
        types = pd.Series(types_of_nodes, dtype=object).value_counts()
        colours: dict[str, str] = dict(zip(types.index, COLOURS, strict=False))
        legend = list(colours.items())
        if len(types) > len(colours):
            legend.append((texts()["picture"]["others"], OTHERS))
        circles = _place_circles(self.graph, self.focus_id, colours)
        lines = [
            Line(circles[one], circles[other], _describe_edge(attributes))
            for one, other, attributes in self.graph.edges(data=True)
        ]
        template = environment(Path(__file__).parent).get_template("picture.svg.j2")
        return template.render(
            title=self.title,
            left_out=self.left_out,
            width=WIDTH,
            height=HEIGHT,
            foot=FOOT,
            label_gap=LABEL_GAP,
            legend=legend,
            circles=circles.values(),
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


def find_neighbourhood(source: ExportSource, entity: str, hops: int) -> list[str]:
    """Return the ids of an entity and of the entities within ``hops`` relationships of it.

    The nearest come first. Those at the same distance are sorted by the weight of their
    relationships to nearer ones, heaviest first, then id.
    """
    batches = list(source.batches("relationships", [*ENDS, "weight"]))
    if not batches:
        return [entity]
    links = pd.concat(batches)
    # With both directions of each relationship, the first column always has the nearer end.
    near, far = ENDS
    turned = links.rename(columns={near: far, far: near})
    both_ways = pd.concat([links, turned])
    weight_of_pair = both_ways.groupby(ENDS)["weight"].sum().reset_index()
    reached = [entity]
    border = [entity]
    for _ in range(hops):
        begins_at_border = weight_of_pair[near].isin(border)
        leads_back = weight_of_pair[far].isin(reached)
        outward = weight_of_pair[begins_at_border & ~leads_back]
        weights = outward.groupby(far)["weight"].sum()
        # Sorted by id first: a stable sort by weight keeps that order among equal weights.
        by_id = weights.sort_index()
        heaviest_first = by_id.sort_values(ascending=False, kind="stable")
        border = heaviest_first.index.tolist()
        reached += border
    return reached


def draw_picture(
    source: ExportSource,
    entity_ids: list[str],
    title: str,
    limit: int,
    focus_id: str = "",
    relationship_ids: Collection[str] | None = None,
) -> Picture:
    """Return a picture of the first ``limit`` entities of ``entity_ids``.

    ``relationship_ids``: those to draw, by default all between these entities. ``focus_id``: the id
    of the entity that the picture is about. Raises UsageError for a limit outside of 1 to
    MOST_NODES.
    """
    if not 1 <= limit <= MOST_NODES:
        raise UsageError(
            f"picture: most: {limit}; draw 1 to {MOST_NODES} entities, or take project.graph()"
        )
    with_parallels = graph_of(source, entity_ids[:limit], stated=False)
    if relationship_ids is not None:
        # Removed before parallels are joined, as only one of these keeps its id. It is a list,
        # since a graph cannot change while its edges are read.
        edges = with_parallels.edges(keys=True)
        others = [edge for edge in edges if edge[2] not in relationship_ids]
        with_parallels.remove_edges_from(others)
    graph = without_parallels(with_parallels)
    _lay_out(graph)
    n_left_out = max(0, len(entity_ids) - limit)
    return Picture(graph, title, focus_id, n_left_out)


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


def _place_circles(
    graph: "nx.DiGraph", focus_id: str, colours: dict[str, str]
) -> dict[str, Circle]:
    """Return the circle of each node by its id, in the picture's coordinates.

    Labels that would overlap an earlier one are left out. The focus comes first, then nodes of the
    highest degree.
    """
    nodes = pd.DataFrame.from_dict(dict(graph.nodes(data=True)), orient="index")
    if nodes.empty:
        return {}
    nodes = nodes.assign(
        is_focus=nodes.index == focus_id, x=_spread(nodes["x"]), y=_spread(nodes["y"])
    )
    nodes = nodes.sort_values(["is_focus", "degree"], ascending=False, kind="stable")
    labels: list[_Label] = []
    circles: dict[str, Circle] = {}
    for id, node in nodes.iterrows():
        x = MARGIN + (WIDTH - 2 * MARGIN) * node["x"]
        y = MARGIN + (HEIGHT - FOOT - 2 * MARGIN) * node["y"]
        # By the root of the degree, the area of a circle grows with it.
        radius = SMALLEST_RADIUS + min(float(node["degree"]) ** 0.5, MOST_GROWTH)
        text = _shorten_text(str(node["name"]), LONGEST_LABEL)
        half_width = CHARACTER_WIDTH * len(text) / 2
        # At the side of the picture, a label is moved inwards.
        label_x = min(max(x, half_width), WIDTH - half_width)
        label = _Label(label_x, y - radius - LABEL_GAP, half_width)
        has_room = not any(label.overlaps(other) for other in labels)
        if has_room:
            labels.append(label)
        description = _shorten_text(str(node["description"]), LONGEST_TEXT)
        circles[str(id)] = Circle(
            x=x,
            y=y,
            radius=radius,
            colour=colours.get(node["type"], OTHERS),
            label=text if has_room else "",
            label_x=label_x,
            tooltip=f"{node['name']} ({node['type']})\n{description}",
            is_focus=bool(node["is_focus"]),
        )
    return circles


class _Label(NamedTuple):
    """The place of a label: the middle of its text, and half of its width."""

    x: float
    y: float
    half_width: float

    def overlaps(self, other: "_Label") -> bool:
        is_beside = abs(self.x - other.x) > self.half_width + other.half_width
        is_above_or_below = abs(self.y - other.y) > CHARACTER_HEIGHT
        return not is_beside and not is_above_or_below


def _spread(places: pd.Series) -> pd.Series:
    """Scale coordinates to 0 to 1, half by their place and half by their order.

    The middle of a layout is crowded; the order spreads it.
    """
    in_the_middle = pd.Series(0.5, index=places.index)
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
    description = _shorten_text(str(attributes["description"]), LONGEST_TEXT)
    return f"{ends}: {attributes['keywords']}\n{description}"


def _shorten_text(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
