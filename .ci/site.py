"""The documentation as a site: `make docs`. It opens from disk, has search, and asks no other host
for anything.

Pages are those of docs/, two that are made from the code, and some of the repository's own. A link
to another file of the repository leads to a copy. Ends with 1 where a link or an anchor leads
nowhere, or a page would ask another host.
"""

import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import typer.main

from pipeline.cli import app
from pipeline.cli.reference import commands_page, settings_page

ROOT = Path(__file__).resolve().parents[1]
PAGES, SITE = ROOT / "build" / "docs", ROOT / "build" / "site"
MORE = {
    "ARCHITECTURE.md": "architecture.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "benchmarks/README.md": "benchmarks.md",
    "README.md": "index.md",
    "settings.yaml": "settings.md",
}
"""Files of the repository that are a page of the site -> its name."""
SHIM = Path(__file__).with_name("iframe-worker.js")
LINK = re.compile(r"(\]\()([^)\s#]+)([^)\s]*\))")
CODE = re.compile(r"(```.*?```|`[^`\n]+`)", re.DOTALL)
ASKS = {
    "script": "src",
    "link": "href",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "object": "data",
}
URL_IN_CSS = re.compile(r"url\(\s*['\"]?(?:https?:)?//")


def main() -> None:
    shutil.rmtree(ROOT / "build", ignore_errors=True)
    shutil.copytree(ROOT / "docs", PAGES)
    sources = {PAGES / path.name: path for path in (ROOT / "docs").glob("*.md")}
    for name, page in MORE.items():
        if name.endswith(".md") and not (PAGES / page).exists():
            sources[PAGES / page] = ROOT / name
    for page, source in sources.items():
        page.write_text(linked(source), encoding="utf-8")
    (PAGES / "commands.md").write_text(commands_page(typer.main.get_command(app)), encoding="utf-8")
    (PAGES / "settings.md").write_text(settings_page(), encoding="utf-8")
    (PAGES / "javascripts").mkdir()
    shutil.copy(SHIM, PAGES / "javascripts")
    built = subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--strict", "--clean"], cwd=ROOT, check=False
    )
    faults = ["the build failed"] if built.returncode else faults_of_site()
    print(*faults, sep="\n", file=sys.stderr)
    pages = len(list(SITE.rglob("*.html")))
    size = sum(path.stat().st_size for path in SITE.rglob("*") if path.is_file())
    print(f"build/site/index.html: {pages} pages, {size / 1e6:.1f} MB, {len(faults)} faults")
    raise SystemExit(bool(faults))


def linked(source: Path) -> str:
    """Return the text of the page with links as they are in the site."""

    def link(found: re.Match[str]) -> str:
        before, target, rest = found.groups()
        if urlsplit(target).scheme:
            return found.group()
        return f"{before}{in_site((source.parent / target).resolve())}{rest}"

    parts = CODE.split(source.read_text(encoding="utf-8"))
    return "".join(part if place % 2 else LINK.sub(link, part) for place, part in enumerate(parts))


def in_site(target: Path) -> str:
    """Return the place of a file of the repository in the site.

    A file that is no page is copied into the site. A missing file keeps its name, which the build
    reports.
    """
    name = target.relative_to(ROOT).as_posix()
    if name in MORE:
        return MORE[name]
    if name.startswith("docs/"):
        return name.removeprefix("docs/")
    if not target.is_file():
        return name
    copy = PAGES / "files" / f"{name}.txt"
    copy.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(target, copy)
    return copy.relative_to(PAGES).as_posix()


class Page(HTMLParser):
    """The links of a page, the files that it loads, and its anchors."""

    def __init__(self, path: Path):
        super().__init__()
        self.links: set[str] = set()
        self.asked: set[str] = set()
        self.anchors: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        has = dict(attrs)
        self.anchors.update(filter(None, [has.get("id"), has.get("name")]))
        if tag == "a" and has.get("href"):
            self.links.add(str(has["href"]))
        if asked := has.get(ASKS.get(tag, "")):
            self.asked.add(asked)
        if URL_IN_CSS.search(has.get("style") or ""):
            self.asked.add("https://in-a-style")


def faults_of_site() -> list[str]:
    pages = {path: Page(path) for path in SITE.rglob("*.html")}
    faults = []
    for path, page in sorted(pages.items()):
        name = path.relative_to(SITE)
        faults += [
            f"{name}: asks another host: {url}" for url in page.asked if urlsplit(url).netloc
        ]
        if name.name == "404.html":
            continue  # its links are from the root of a server
        for url in sorted(page.links | page.asked):
            parts = urlsplit(url)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.exists():
                faults.append(f"{name}: {url} leads nowhere")
            elif (
                parts.fragment
                and target in pages
                and unquote(parts.fragment) not in pages[target].anchors
            ):
                faults.append(f"{name}: {url}: no such anchor")
    styles = [
        path for path in SITE.rglob("*.css") if URL_IN_CSS.search(path.read_text(encoding="utf-8"))
    ]
    return faults + [f"{path.relative_to(SITE)}: asks another host" for path in styles]


if __name__ == "__main__":
    main()
