"""Some of the graph as one SVG, for a notebook: no script, no address, nothing that is loaded."""

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
"""By default, and at most: more is no picture that anybody reads, and its layout takes seconds."""
WIDTH, HEIGHT, MARGIN, FOOT = 960, 600, 40, 30
COLOURS = ("#4e79a7", "#f28e2b", "#59a14f", "#b07aa1", "#e15759", "#76b7b2", "#9c755f", "#edc948")
OTHERS = "#bab0ac"
LONGEST_LABEL, LONGEST_TEXT = 28, 300
CHARACTER, LINE = 6.8, 14
"""As wide and as high as a character of a label, about: what labels leave each other."""
SEED = 20240401


class Spot(NamedTuple):
    """``label``: "" where there is no room for one, around ``label_x`` else. ``focus``: what the
    picture is about."""

    x: float
    y: float
    radius: float
    colour: str
    label: str
    label_x: float
    told: str
    focus: bool


class Line(NamedTuple):
    start: Spot
    end: Spot
    told: str


@dataclass(frozen=True)
class Picture:
    """What a notebook shows as the last value of a cell. ``graph``: what is drawn, as
    ``Project.graph`` has it, each node with ``x`` and ``y``. ``focus``: the entity that it is
    about, if any. ``left_out``: how many had no place."""

    graph: "nx.DiGraph"
    title: str
    focus: str = ""
    left_out: int = 0

    @property
    def svg(self) -> str:
        """Of names and texts every character is text."""
        types = pd.Series(
            [told["type"] for _, told in self.graph.nodes(data=True)], dtype=object
        ).value_counts()
        colours: dict[str, str] = dict(zip(types.index, COLOURS, strict=False))
        spots, links = _spots(self.graph, self.focus, colours), self.graph.edges(data=True)
        template = environment(Path(__file__).parent).get_template("picture.svg.j2")
        return template.render(
            title=self.title, left_out=self.left_out, width=WIDTH, height=HEIGHT, foot=FOOT,
            legend=[*colours.items(), *([(texts()["picture"]["others"],
                OTHERS)] if len(types) > len(colours) else [])],
            spots=spots.values(),
            lines=[Line(spots[one], spots[other], _told_of_edge(told)) for one, other,
                told in links],
        )  # fmt: skip

    def _repr_html_(self) -> str:
        return self.svg


def find_entity(source: ExportSource, name: str) -> str | None:
    """The id of an entity by its name or id; None where there is none."""
    source.require(*GRAPH)
    wanted = {name, entity_id(name)}
    for entities in source.batches("entities", ["id"]):
        if not (met := entities["id"][entities["id"].isin(wanted)]).empty:
            return str(met.iloc[0])
    return None


def neighbourhood(source: ExportSource, entity: str, hops: int) -> list[str]:
    """The ids of the entity and of those around it, the nearest first, and of these the ones of the
    greatest weight."""
    links = pd.concat(source.batches("relationships", [*ENDS, "weight"]))
    turned = links.rename(columns=dict(zip(ENDS, reversed(ENDS), strict=True)))
    steps = pd.concat([links, turned]).groupby(ENDS)["weight"].sum().reset_index()
    found, edge = [entity], [entity]
    for _ in range(hops):
        met = (
            steps[steps[ENDS[0]].isin(edge) & ~steps[ENDS[1]].isin(found)]
            .groupby(ENDS[1])["weight"]
            .sum()
        )
        edge = met.sort_index().sort_values(ascending=False, kind="stable").index.tolist()
        found += edge
    return found


def picture_of(
    source: ExportSource,
    ids: list[str],
    title: str,
    most: int,
    focus: str = "",
    only: Collection[str] | None = None,
) -> Picture:
    """Of the first ``most`` of these entities; ``only``: the ids of the relationships to draw, by
    default all between them. Raises UsageError for more than MOST_NODES."""
    if not 1 <= most <= MOST_NODES:
        raise UsageError(
            f"picture: most: {most}; draw 1 to {MOST_NODES} entities, or take project.graph()"
        )
    graph = without_parallels(graph_of(source, ids[:most]))
    if only is not None:
        graph.remove_edges_from(
            [(*ends, told) for *ends, told in graph.edges(data="id") if told not in only]
        )
    _place(graph)
    return Picture(graph, title, focus, max(0, len(ids) - most))


def _place(graph: "nx.DiGraph") -> None:
    """Where a workflow has placed them all, there; else as networkx lays them out, which is the
    same every time."""
    import networkx as nx

    if all({"x", "y"} <= told.keys() for _, told in graph.nodes(data=True)):
        return
    options: dict[str, Any] = {"seed": SEED, "method": "force"}  # the stubs do not know method
    for node, (x, y) in nx.spring_layout(nx.Graph(graph), **options).items():
        graph.nodes[node].update(x=float(x), y=float(y))


def _spots(graph: "nx.DiGraph", focus: str, colours: dict[str, str]) -> dict[str, Spot]:
    """Half by place, half by order: the middle of a layout is crowded. The focus and the greatest
    have their labels first."""
    told = pd.DataFrame.from_dict(dict(graph.nodes(data=True)), orient="index")
    if told.empty:
        return {}
    at = {axis: _spread(told[axis]) for axis in ("x", "y")}
    told = told.assign(focus=told.index == focus, **at).sort_values(
        ["focus", "degree"], ascending=False, kind="stable"
    )
    taken: list[tuple[float, float, float]] = []
    spots: dict[str, Spot] = {}
    for id, row in told.iterrows():
        x = MARGIN + (WIDTH - 2 * MARGIN) * row["x"]
        y = MARGIN + (HEIGHT - FOOT - 2 * MARGIN) * row["y"]
        radius = 4 + min(float(row["degree"]) ** 0.5, 12)
        label = _short(str(row["name"]), LONGEST_LABEL)
        half, line = CHARACTER * len(label) / 2, y - radius - 3
        middle = min(max(x, half), WIDTH - half)
        if all(
            abs(middle - there) > half + width or abs(line - other) > LINE
            for there, other, width in taken
        ):
            taken.append((middle, line, half))
        else:
            label = ""
        about = f"{row['name']} ({row['type']})\n{_short(str(row['description']), LONGEST_TEXT)}"
        spots[str(id)] = Spot(
            x, y, radius, colours.get(row["type"], OTHERS), label, middle, about, bool(row["focus"])
        )  # fmt: skip
    return spots


def _spread(places: pd.Series) -> pd.Series:
    """Between 0 and 1."""
    if len(places) == 1:
        return places * 0 + 0.5
    width = places.max() - places.min()
    share = (places - places.min()) / width if width else places * 0 + 0.5
    return (share + (places.rank(method="first") - 1) / (len(places) - 1)) / 2


def _told_of_edge(told: dict[str, Any]) -> str:
    ends = f"{told['source_name']} - {told['target_name']}"
    return f"{ends}: {told['keywords']}\n{_short(told['description'], LONGEST_TEXT)}"


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
