"""docs, and the two of its pages that are made from the code."""

import io
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
from pydantic import BaseModel
from typer.testing import CliRunner

import pipeline
from pipeline.cli import app
from pipeline.cli.reference import commands_page, settings_page
from pipeline.errors import USAGE
from pipeline.export.kinds import KINDS
from pipeline.settings.query_fields import MODES, QUERY_OPTIONS
from tests.settings.test_settings import SECTIONS

ROOT = Path(__file__).parents[2]
PAGES = {path.stem for path in (ROOT / "docs").glob("*.md")} | {"commands", "settings"}


def shown(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["docs", *arguments])


def test_without_a_page_all_are_listed_the_one_to_begin_with_first():
    lines = shown().stdout.splitlines()
    assert {line.split()[0] for line in lines} == PAGES
    assert lines[0].split(maxsplit=1) == ["index", "Start here"]
    assert [line.split(maxsplit=1)[1] for line in lines if line.startswith("nightly ")] == [
        "Every night"
    ]


@pytest.mark.parametrize("name", ["nightly", "nightly.md", "docs/nightly.md"])
def test_a_page_is_printed_as_it_is_where_nobody_looks(name: str):
    assert shown(name).stdout == (ROOT / "docs" / "nightly.md").read_text(encoding="utf-8")


def test_names_of_the_code_are_listed_where_no_site_says_what_they_are():
    said = shown("api").stdout
    assert "- `pipeline.Project`" in said
    assert ":::" not in said


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_on_a_terminal_a_page_is_rendered(monkeypatch: pytest.MonkeyPatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    app(["docs", "verbs"], standalone_mode=False)
    assert "filter_documents" in terminal.getvalue()
    assert "```" not in terminal.getvalue()
    assert "<!--" not in terminal.getvalue()


@pytest.mark.parametrize("page", ["settings", "verbs"])
def test_in_a_narrow_terminal_tables_are_folded_and_nothing_is_left_off(
    page: str, monkeypatch: pytest.MonkeyPatch
):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("COLUMNS", "80")
    app(["docs", page], standalone_mode=False)
    assert "…" not in terminal.getvalue()


def test_an_unknown_page_is_answered_with_the_nearest():
    done = shown("nigthly")
    assert done.exit_code == USAGE
    assert done.stderr == "graphmill: docs: no page 'nigthly'; did you mean 'nightly'?\n"


def test_every_command_and_option_is_on_the_page():
    group: Any = typer.main.get_command(app)
    page = commands_page(group)
    parts = dict(
        zip(*[iter(re.split(r"^## (.*)$", page, flags=re.MULTILINE)[1:])] * 2, strict=True)
    )
    found = dict(_commands("graphmill", group))
    assert list(parts) == sorted(parts) == sorted(found)
    for name, one in found.items():
        spelled = {
            option
            for parameter in one.params
            for option in parameter.opts
            if option.startswith("-")
        }
        assert {
            option for option in spelled - {"--help"} if f"`{option}" not in parts[name]
        } == set(), name
        assert one.help in parts[name]


def _commands(name: str, group: Any) -> Iterator[tuple[str, Any]]:
    for below, one in group.commands.items():
        yield from (
            _commands(f"{name} {below}", one)
            if hasattr(one, "commands")
            else [(f"{name} {below}", one)]
        )


@pytest.mark.parametrize(
    ("section", "model"), SECTIONS.items(), ids=lambda value: str(value) or "top"
)
def test_every_setting_is_on_the_page(section: str, model: type[BaseModel]):
    prefix = section.replace(".default", ".NAME")
    for name in model.model_fields:
        key = f"{prefix}.{name}".strip(".")
        assert any(told == key or told.startswith((f"{key}.", f"{key}[")) for told in settings()), (
            key
        )


def test_a_setting_has_its_type_and_its_default():
    assert settings()["query.top_k"] == ("integer, at least 1, at most 10,000", "`10`")
    assert settings()["stores.graph"] == ("`postgres`, `neo4j`", '`"postgres"`')
    assert settings()["models.chat.NAME.seed"] == ("integer", "")
    assert settings()["input.steps[].verb"] == ("text", "")


def settings() -> dict[str, tuple[str, str]]:
    rows = re.findall(r"^\| `(\S+)` \| (.*) \| (.*) \|$", settings_page(), re.MULTILINE)
    return {key: (type, default) for key, type, default in rows}


def test_every_mode_is_on_its_pages_and_in_the_commands_help():
    modes = set(MODES)
    told = QUERY_OPTIONS["mode"].description.help
    page = (ROOT / "docs" / "query.md").read_text(encoding="utf-8")
    assert modes <= set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))
    assert set(re.findall(r"\w+", told)) - {"or"} == modes
    peers = (ROOT / "docs" / "peers.md").read_text(encoding="utf-8")
    [row] = re.findall(r"^\| Modes \| ([^|]*) \|", peers, re.MULTILINE)
    assert row == ", ".join(MODES)
    assert f" {len(MODES)} modes " in (ROOT / "README.md").read_text(encoding="utf-8")


def test_every_kind_of_export_is_on_its_page():
    page = (ROOT / "docs" / "exchange.md").read_text(encoding="utf-8")
    assert {kind for kind in KINDS if f"`{kind}`" not in page} == set()


def test_every_page_is_in_the_sites_navigation_and_on_the_page_to_begin_with():
    nav = set(
        re.findall(
            r"[\w-]+(?=\.md)",
            (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[2],
        )
    )
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    start = {
        *re.findall(r"[\w-]+(?=\.(?:md|yaml)\))", index),
        *re.findall(r"`graphmill docs ([\w-]+)`", index),
    }
    assert nav >= PAGES
    assert start >= PAGES - {"index"}


CODE = re.compile(r"```.*?```|`[^`\n]+`", re.DOTALL)
READ = [
    ROOT / name
    for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "benchmarks/README.md")
]


@pytest.mark.parametrize("page", [*READ, *(ROOT / "docs").glob("*.md")], ids=lambda page: page.stem)
def test_links_to_files_lead_somewhere_in_a_checkout(page: Path):
    """Pages that are made from the code are of the site alone; there `make docs` checks."""
    links = re.findall(
        r"\]\(([^)\s#:]+)(?:#[^)\s]*)?\)", CODE.sub("", page.read_text(encoding="utf-8"))
    )
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_every_link_of_the_readme_leads_somewhere():
    """Those of the pages are checked by `make docs`."""
    links = re.findall(
        r"\]\(([^)#]+)(?:#([^)]+))?\)", (ROOT / "README.md").read_text(encoding="utf-8")
    )
    assert len(links) > 10
    for path, anchor in links:
        target = ROOT / path
        assert target.exists(), path
        if anchor:
            titles = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in {
                re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles
            }


def test_nothing_advises_to_install_a_name_that_is_not_ours():
    """graphmill is on no index: who asks for it there may be given anybody's."""
    folders = ("pipeline", "docs", "examples", "workflows", "prompts")
    files = [
        path
        for folder in folders
        for path in (ROOT / folder).rglob("*")
        if path.suffix not in ("", ".pyc", ".webp")
    ]
    texts = {
        path: path.read_text(encoding="utf-8")
        for path in [*files, ROOT / "README.md", ROOT / "settings.yaml"]
    }
    advice = re.compile(r"pip install (?:-\S+ )*['\"]?graphmill\b(?!-\d)")
    assert [str(path) for path, text in texts.items() if advice.search(text)] == []
    assert advice.search("pip install 'graphmill[docs]'")
    assert not advice.search("pip install graphmill-0.1.0-py3-none-any.whl")


def test_every_name_of_the_public_face_is_on_the_page_of_python():
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    assert {name for name in pipeline.__all__ if f"::: pipeline.{name}\n" not in page} == set()
