"""Pictures of the views, from the sample corpus: ``python -m tests.serve.ui.screenshots`` (make
screenshots).

Every view, wide and narrow, light and dark, goes into build/screenshots to be looked at; four of
them, as WebP, into docs/pictures. There is no chat model: what is shown is what anybody sees first.
"""

import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, expect

from pipeline.stores.postgres.embedded import start_embedded
from tests.projects import ProjectFolder
from tests.serve.serving import serving
from tests.serve.ui.browser import NARROW, WIDE, browser, watching
from tests.serve.ui.sample import nights_of_the_sample
from tests.servers.postgres_server import server_folder

ROOT = Path(__file__).parents[3]
LOOKED_AT, SHOWN = ROOT / "build" / "screenshots", ROOT / "docs" / "pictures"
CHOSEN = {"ask": "light", "graph": "dark", "document": "light", "run": "light"}
"""View -> the colours it is shown in, wide, in the documentation."""
MOST_BYTES = 100_000


def answered(page: Page) -> None:
    page.get_by_label("Your question").fill("Who designed the Skarrow Light?")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Copy with sources")).to_be_visible()
    page.evaluate("scrollTo(0, 0)")


def at_rest(page: Page) -> None:
    expect(page.locator("canvas").first).to_be_visible()
    page.wait_for_timeout(2500)  # until all have found their places


def an_entity(page: Page) -> None:
    page.get_by_role("searchbox").fill("Tessing")
    page.keyboard.press("Enter")
    page.locator("#found").get_by_role("button", name="Tessing").first.click()
    expect(
        page.get_by_role("complementary", name="Details").get_by_role("heading").first
    ).to_be_visible()
    at_rest(page)


def a_document(page: Page) -> None:
    page.get_by_role("main").get_by_role("link", name="The Skarrow Light").first.click()


def a_night(page: Page) -> None:
    page.get_by_role("table").get_by_role("link").nth(1).click()


VIEWS: Mapping[str, tuple[str, Callable[[Page], None]]] = {
    "ask": ("/", answered),
    "ask-first": ("/", lambda page: None),
    "graph": ("/graph", an_entity),
    "graph-whole": ("/graph", at_rest),
    "documents": ("/documents", lambda page: None),
    "document": ("/documents", a_document),
    "runs": ("/runs", lambda page: None),
    "run": ("/runs", a_night),
    "plan": ("/runs/plan", lambda page: None),
}


def main() -> None:
    shutil.rmtree(LOOKED_AT, ignore_errors=True)
    LOOKED_AT.mkdir(parents=True)
    with (
        sample() as project,
        project.open() as opened,
        serving(opened) as served,
        browser() as chromium,
    ):
        for scheme in ("light", "dark"):
            for width, viewport in (("wide", WIDE), ("narrow", NARROW)):
                with watching(
                    chromium, viewport=viewport, color_scheme=scheme, reduced_motion="reduce"
                ) as watched:
                    for view, (address, show) in VIEWS.items():
                        watched.page.goto(f"{served.url}{address}")
                        expect(watched.page.get_by_role("heading", level=1)).to_be_attached()
                        show(watched.page)
                        watched.page.wait_for_load_state("networkidle")
                        path = LOOKED_AT / f"{view}-{width}-{scheme}.png"
                        watched.page.screenshot(path=path, full_page=width == "narrow")
                        if (scheme, width) == (CHOSEN.get(view), "wide"):
                            save(path, SHOWN / f"page-{view}.webp")
                    for complaint in watched.complaints:
                        print(f"{width}, {scheme}: {complaint}")
    print(f"{LOOKED_AT.relative_to(ROOT)}: {len(list(LOOKED_AT.iterdir()))} pictures")


@contextmanager
def sample() -> Iterator[ProjectFolder]:
    with tempfile.TemporaryDirectory() as temporary, server_folder() as folder:
        yield nights_of_the_sample(Path(temporary) / "my-project", start_embedded(folder))


def save(shot: Path, path: Path) -> None:
    """As WebP that loses nothing: letters take less room so, and stay sharp."""
    with Image.open(shot) as image:
        image.convert("RGB").save(path, lossless=True, method=6)
    size = path.stat().st_size
    assert size <= MOST_BYTES, f"{path.name}: {size:,} bytes"
    print(f"{path.relative_to(ROOT)}: {size:,} bytes")


if __name__ == "__main__":
    main()
