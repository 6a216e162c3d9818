"""The pictures of the documentation, from the sample corpus: `make pictures`. They are drawn, not
photographed: small SVGs without a script, a font or an address in them."""

import io
import json
import os
import subprocess
import sys
import tempfile
from html import escape
from pathlib import Path

import pandas as pd
from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

from pipeline import Project
from pipeline.settings.init import SAMPLE_QUESTIONS, init_project
from pipeline.verbs.detect_communities import CommunityParams, detect_communities
from pipeline.verbs.layout_graph import layout_graph

FOLDER = Path(__file__).parents[1] / "docs" / "pictures"
FONT = "font-family='Helvetica, Arial, DejaVu Sans, sans-serif'"
COLOURS = ("#4e79a7", "#f28e2b", "#59a14f", "#b07aa1", "#e15759", "#76b7b2", "#9c755f", "#edc948")
ENTITIES, LONGEST = 110, 26
QUESTION = "Who designed the Skarrow Light?"
PUBLISHED = {
    "graphmill, no model": 97,
    "fast-graphrag": 93,
    "GraphRAG (nano)": 73,
    "LightRAG": 45,
    "vectors alone": 42,
}
"""All gold passages in the first 8, 101 questions of 2WikiMultiHopQA, in percent: ours from
benchmarks/README.md, the others from the benchmark of circlemind-ai/fast-graphrag."""
TERMINAL = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">
<style>.t {{ font: {char_height}px Menlo, Consolas, "DejaVu Sans Mono", monospace; white-space: pre; }} {styles}</style>
<defs>{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})">{backgrounds}<g class="t">{matrix}</g></g>
</svg>
"""  # noqa: E501


def main() -> None:
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary) / "my-project"
        init_project(root, sample=True)
        write_pictures(root, FOLDER)


def write_pictures(root: Path, folder: Path) -> None:
    """Run the sample project in ``root``, and write the pictures of it into ``folder``."""
    session = [
        said(root, "run"),
        said(root, "query", QUESTION, "--mode", "naive", "--chunk-top-k", "2"),
    ]
    plan = said(root, "plan", "index")
    questions = str(root / SAMPLE_QUESTIONS)
    evaluation = json.loads(run_command(root, "eval", questions, "--k", "5", "--json").stdout)
    recall = {mode: 100 * found["recall@5"] for mode, found in evaluation["modes"].items()}
    with Project.open(root) as project:
        graph = drawn_graph(project.table("entities"), project.table("relationships"))
    asked = len(evaluation["questions"])
    title = f"Sample corpus, {asked} questions: recall@5 of each mode, workflow fast, in percent"
    pictures = {
        "graph.svg": graph,
        "terminal.svg": terminal("\n\n".join(session), 118),
        "plan.svg": terminal(plan, max(map(len, plan.splitlines()))),
        "modes.svg": bars(title, recall),
        "recall.svg": bars(
            "All evidence in the first 8 passages: 2WikiMultiHopQA, 101 questions, in percent",
            PUBLISHED,
        ),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, picture in pictures.items():
        (folder / name).write_text(picture, encoding="utf-8")
        print(f"docs/pictures/{name}: {len(picture):,} bytes")


def said(root: Path, *arguments: str) -> str:
    """Run a graphmill command and return its line and its output."""
    quoted = " ".join(f'"{word}"' if " " in word else word for word in arguments)
    told = run_command(root, *arguments)
    return f"$ graphmill -C my-project {quoted}\n{told.stderr}{told.stdout}".rstrip()


def run_command(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pipeline", "-C", str(root), *arguments]
    environment = {**os.environ, "COLUMNS": "110", "PYTHONPATH": str(Path(__file__).parents[1])}
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=True)


def drawn_graph(entities: pd.DataFrame, relationships: pd.DataFrame) -> str:
    """Draw the entities with most neighbours that are linked, coloured by community."""
    shown = entities.nlargest(ENTITIES, ["degree", "frequency"], keep="first")
    ends = relationships["source_entity_id"].isin(shown["id"]) & relationships[
        "target_entity_id"
    ].isin(shown["id"])
    links = relationships[ends].reset_index(drop=True)
    shown = shown[
        shown["id"].isin({*links["source_entity_id"], *links["target_entity_id"]})
    ].reset_index(drop=True)
    _, nodes = detect_communities(shown, links, CommunityParams(max_cluster_size=24))
    coarsest = nodes[nodes["level"] == 0].reset_index(drop=True)
    placed = layout_graph(coarsest, links)[0].set_index("entity_id")
    order = placed["community_id"].value_counts().index.tolist()
    for axis in ("x", "y"):  # half by place, half by order: the middle is crowded
        placed[axis] = (
            placed[axis] / placed[axis].abs().max() / 2 + placed[axis].rank(pct=True) - 0.5
        )
    spots = {id: (480 + 430 * row.x, 305 + 270 * row.y) for id, row in placed.iterrows()}
    parts = [
        f"<line x1='{a[0]:.0f}' y1='{a[1]:.0f}' x2='{b[0]:.0f}' y2='{b[1]:.0f}'/>"
        for a, b in zip(
            links["source_entity_id"].map(spots), links["target_entity_id"].map(spots), strict=True
        )
    ]
    dots, labels, taken = [], [], []
    for row in shown.itertuples(index=False):
        x, y = spots[row.id]
        radius = 3 + row.degree**0.5 / 1.6
        colour = COLOURS[order.index(placed["community_id"][row.id]) % len(COLOURS)]
        dots.append(f"<circle cx='{x:.0f}' cy='{y:.0f}' r='{radius:.1f}' fill='{colour}'/>")
        half, line = 3.4 * len(row.name), y - radius - 3
        free = all(
            abs(x - there) > half + width or abs(line - other) > 14 for there, other, width in taken
        )
        if free and len(row.name) <= LONGEST and half < x < 960 - half:
            taken.append((x, line, half))
            labels.append(f"<text x='{x:.0f}' y='{line:.0f}'>{escape(row.name)}</text>")
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 960 600' {FONT}><rect width='960'"
        " height='600' rx='10' fill='#fff'/><g stroke='#999'"
        f" stroke-opacity='.28'>{''.join(parts)}</g><g stroke='#fff'>{''.join(dots)}</g><g"
        " font-size='12' text-anchor='middle' fill='#222' stroke='#fff' stroke-width='3'"
        f" paint-order='stroke'>{''.join(labels)}</g></svg>\n"
    )


def bars(title: str, values: dict[str, float]) -> str:
    rows: list[str] = []
    for place, (name, value) in enumerate(values.items()):
        y = 48 + 30 * place
        colour = COLOURS[0] if value == max(values.values()) else "#a9b8c6"
        rows += [
            f"<text x='170' y='{y + 16}' text-anchor='end'>{escape(name)}</text>",
            f"<rect x='180' y='{y}' width='{4.6 * value:.0f}' height='22' fill='{colour}'/>",
            f"<text x='{188 + 4.6 * value:.0f}' y='{y + 16}'>{value:.0f}</text>",
        ]
    height = 62 + 30 * len(values)
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 720 {height}' {FONT} font-size='14'"
        f" fill='#222'><rect width='720' height='{height}' rx='10' fill='#fff'/><text x='20' y='28'"
        f" font-weight='bold'>{escape(title)}</text>{''.join(rows)}</svg>\n"
    )


def terminal(text: str, width: int) -> str:
    console = Console(record=True, width=width, file=io.StringIO())
    for line in text.splitlines():
        console.print(Text(line, style="bold" if line.startswith("$ ") else ""))
    return console.export_svg(title="graphmill", theme=MONOKAI, code_format=TERMINAL, unique_id="t")


if __name__ == "__main__":
    main()
