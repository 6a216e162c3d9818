"""What `make docs` looks for in the site it has built."""

import importlib.util
import shutil
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[2] / ".ci" / "site.py"
SHIM = SCRIPT.with_name("iframe-worker.js")
FRAME = """
const inside = Object.assign(new EventTarget(), {
  MessageEvent,
  document: { createElement: () => ({}), documentElement: { append: (script) => script.onload() } },
});
globalThis.window = globalThis;
globalThis.location = { protocol: "file:", toString: () => "file:///site/index.html" };
globalThis.document = {
  createElement: () => ({ contentWindow: inside }),
  documentElement: { append: () => {} },
};
"""
GOOD = (
    "<h1 id='top'>A</h1><a href='b.html#there'>b</a><a href='https://example.org'>away</a><img"
    " src='a.svg'>"
)
OTHER = "<h2 id='there'>B</h2><a href='#there'>here</a>"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("site_of_docs", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    site = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(site)
    monkeypatch.setattr(site, "SITE", tmp_path)
    for name, text in {"a.html": GOOD, "b.html": OTHER, "a.svg": "<svg/>"}.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return site


def test_a_site_whose_links_lead_somewhere_has_no_faults(site: ModuleType):
    assert site.faults_of_site() == []


@pytest.mark.parametrize(
    ("name", "text", "fault"),
    [
        ("c.html", "<a href='gone.html'>x</a>", "c.html: gone.html leads nowhere"),
        ("c.html", "<a href='b.html#gone'>x</a>", "c.html: b.html#gone: no such anchor"),
        ("c.html", "<img src='gone.svg'>", "c.html: gone.svg leads nowhere"),
        (
            "c.html",
            "<script src='https://unpkg.com/x'></script>",
            "c.html: asks another host: https://unpkg.com/x",
        ),
        (
            "c.html",
            "<link href='//fonts.example/x' rel='stylesheet'>",
            "c.html: asks another host: //fonts.example/x",
        ),
        ("c.css", "a { background: url('https://example.org/x') }", "c.css: asks another host"),
    ],
)
def test_what_it_finds(site: ModuleType, tmp_path: Path, name: str, text: str, fault: str):
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert site.faults_of_site() == [fault]


def test_a_link_out_of_the_docs_leads_to_a_page_or_a_copy(
    site: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(site, "PAGES", tmp_path)
    assert site.in_site(site.ROOT / "docs" / "query.md") == "query.md"
    assert site.in_site(site.ROOT / "benchmarks" / "README.md") == "benchmarks.md"
    copied = site.in_site(site.ROOT / "examples" / "nightly" / "crontab")
    assert (tmp_path / copied).read_bytes() == (
        site.ROOT / "examples" / "nightly" / "crontab"
    ).read_bytes()


@pytest.mark.skipif(not shutil.which("node"), reason="no node")
def test_the_worker_of_search_from_disk_has_a_copy_of_what_it_is_told_as_any_worker_has():
    """Search writes into its messages: shared with the page, each letter typed was taken away
    again."""
    talk = """
    inside.addEventListener("message", ({ data }) => {
      Object.assign(data, { input: "", found: [data] });
      inside.postMessage(data);
    });
    const worker = new Worker("search.js"), asked = { input: "cron" };
    worker.onmessage = ({ data }) => { data.found[0].input = "page"; console.log(asked.input, Object.keys(asked)); };
    worker.postMessage(asked);
    """  # noqa: E501
    script = FRAME + SHIM.read_text(encoding="utf-8") + talk
    told = subprocess.run(["node", "-"], input=script, capture_output=True, text=True, check=True)
    assert told.stdout == "cron [ 'input' ]\n"
