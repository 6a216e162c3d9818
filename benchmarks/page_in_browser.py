"""Measure the views of `graphmill ui` in a real browser over a large graph.

    # 100,000 entities, 300,000 relationships
    python benchmarks/page_in_browser.py
    python benchmarks/page_in_browser.py --entities 2000 --relationships 6000
    # a project that is loaded
    python benchmarks/page_in_browser.py --project PROJECT

The browser is the machine's own Chromium, headless, which draws WebGL without a graphics card.
Without ``--project`` the benchmark makes a graph, finds its communities and loads them; a server in
a process of its own shows it.

``useful ms`` is measured by the browser's clock. It runs from the last byte of the view's HTML to
the frame that shows what people came for: the median of --times windows without a cache. ``server
ms`` is the time from the request to that byte, and ``kB`` all that came over the wire. The
scripting of a frame is what Chromium counts as such (ScriptDuration and LayoutDuration, by frames)
while a mouse moves over, drags and zooms a graph of --nodes nodes and three times as many edges.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness import print_table
from playwright.sync_api import Browser, Page

from benchmarks.page import make_project
from benchmarks.serving import KEY, serving
from pipeline.stores.postgres.embedded import stop_embedded
from tests.serve.ui.browser import browser, watching

USEFUL = {
    "ask": ("/", "#question:enabled"),
    "graph": ("/graph", "#nodes button"),
    "documents": ("/documents", "main table a"),
    "nights": ("/nights", "main table a, main .notice"),
}
"""View -> its address, and what people came for."""
WATCH = """(() => { const look = () => [...document.querySelectorAll(%s)].some((found) => found.getClientRects().length)
    ? (window.useful = performance.now()) : requestAnimationFrame(look); requestAnimationFrame(look); })()"""  # noqa: E501
TOLD = """() => { const page = performance.getEntriesByType("navigation")[0];
    const all = [page, ...performance.getEntriesByType("resource")];
    return {useful: window.useful - page.responseEnd, server: page.responseEnd - page.requestStart,
            bytes: all.reduce((sum, one) => sum + one.transferSize, 0)}; }"""
DRAW = """async ([nodes, edges]) => {
    const shell = document.querySelector("script[src*='shell.js']").src;
    const { drawing } = await import(new URL("drawing.js", shell));
    const place = document.createElement("div");
    place.style.cssText = "position: fixed; inset: 0; background: white; z-index: 99";
    document.body.append(place);
    const random = (() => { let seed = 7; return () => (seed = (seed * 48271) % 2147483647) / 2147483647; })();
    const shown = Array.from({ length: nodes }, (_, place) => (
        { id: `n${place}`, label: `Name ${place}`, size: 3 + 10 * random() ** 4, group: place % 8 }));
    const pick = () => `n${Math.floor(nodes * random() ** 2)}`;
    const linked = Array.from({ length: edges }, (_, place) => (
        { id: `e${place}`, source: pick(), target: pick(), weight: 1 }));
    const drawn = await drawing(place);
    drawn.show(shown, linked);
    window.frames_seen = 0;
    const count = () => { window.frames_seen++; requestAnimationFrame(count); };
    requestAnimationFrame(count);
}"""  # noqa: E501


def main() -> None:
    options = _options()
    made = nullcontext(options.project) if options.project else made_project(options)
    with made as root, serving(root, []) as (_, url), browser() as chromium:
        print_table([view_row(chromium, url, view, options.times) for view in options.views])
        print_table([frame_row(chromium, url, options.nodes, 3 * options.nodes)])
    print(f"load of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


def view_row(chromium: Browser, url: str, view: str, times: int) -> dict[str, Any]:
    address, useful = USEFUL[view]
    told = []
    for _ in range(times):
        with watching(chromium, extra_http_headers={"X-API-Key": KEY}) as watched:
            watched.page.add_init_script(WATCH % json.dumps(useful))
            watched.page.goto(f"{url}{address}")
            watched.page.locator(useful).first.wait_for()
            watched.page.evaluate(
                "() => new Promise((seen) => requestAnimationFrame(() =>"
                " requestAnimationFrame(seen)))"
            )
            told.append(watched.page.evaluate(TOLD))
    middle = {name: statistics.median(one[name] for one in told) for name in told[0]}
    return {
        "view": view, "useful ms": round(middle["useful"]),
        "most": round(max(one["useful"] for one in told)),
        "server ms": round(middle["server"]), "kB": round(middle["bytes"] / 1000),
    }  # fmt: skip


def frame_row(chromium: Browser, url: str, nodes: int, edges: int) -> dict[str, Any]:
    with watching(chromium, extra_http_headers={"X-API-Key": KEY}) as watched:
        watched.page.goto(f"{url}/graph")
        watched.page.wait_for_load_state("networkidle")
        watched.page.evaluate(DRAW, [nodes, edges])
        placing = metrics(watched.page, lambda: watched.page.wait_for_timeout(4000))
        moving = metrics(watched.page, lambda: move(watched.page))
    return {
        "nodes": nodes,
        "edges": edges,
        "while placed": placing,
        "while moved and zoomed": moving,
    }


def move(page: Page) -> None:
    for place in range(60):
        page.mouse.move(300 + 10 * place, 300 + 3 * place)
    for turn in range(20):
        page.mouse.wheel(0, -120 if turn < 10 else 120)
        page.wait_for_timeout(20)
    page.mouse.down()
    for place in range(60):
        page.mouse.move(900 - 8 * place, 480 - 2 * place)
    page.mouse.up()


def metrics(page: Page, act: Any) -> str:
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable")

    def counted() -> tuple[float, int]:
        told = {
            one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]
        }
        return told["ScriptDuration"] + told["LayoutDuration"], page.evaluate("window.frames_seen")

    before, first = counted()
    act()
    after, last = counted()
    return f"{1000 * (after - before) / max(1, last - first):.1f} ms a frame of {last - first}"


@contextmanager
def made_project(options: argparse.Namespace) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="graphmill-page-", ignore_cleanup_errors=True) as name:
        root = Path(name) / "project"
        make_project(root, options)
        try:
            yield root
        finally:
            stop_embedded(root / "data" / "postgres")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--project", type=Path, help="one that is loaded; nothing is made then")
    parser.add_argument("--entities", type=int, default=100_000)
    parser.add_argument("--relationships", type=int, default=300_000)
    parser.add_argument("--units", type=int, default=20_000)
    parser.add_argument("--nodes", type=int, default=2_000)
    parser.add_argument("--views", nargs="+", default=list(USEFUL))
    parser.add_argument("--times", type=int, default=5)
    return parser.parse_args(namespace=argparse.Namespace(communities=True))


if __name__ == "__main__":
    main()
