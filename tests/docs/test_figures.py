"""Measured figures of the documentation, each of them one that a benchmark recorded."""

import json
import re
import sys
from pathlib import Path

import pytest
import yaml

from benchmarks import figures

ROOT = Path(__file__).parents[2]
STATED: dict[str, list[str]] = yaml.safe_load(
    Path(__file__).with_name("figures.yaml").read_text(encoding="utf-8")
)
RECORDS = {"disk-space", "graph-retrieval-figures", "languages", "scale", "stores-sizes"}
"""Pages that are the tables of one measurement and name its command: not read number by number."""
MEASURED = re.compile(r"\d[\d.,]* (?:%|ms\b|CPU|s of CPU|s of one core|MB\b|GB\b|kB\b|KB\b)")
"""Numbers of a unit in which benchmarks measure."""
PLACE = re.compile(r"\{([^{}]+?)(?::(%|million))?\}")
PAGES = ["README.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))]


def words_of(page: str) -> str:
    """Return a page's text without blocks of code, in one line."""
    text = (ROOT / page).read_text(encoding="utf-8")
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    return " ".join(prose.split())


def with_figures(passage: str) -> str:
    """Return a passage with the recorded figures in their places."""
    values = {figure["name"]: figure["value"] for figure in figures.read()}

    def shown(place: re.Match[str]) -> str:
        name, form = place.groups()
        value = values[name]
        if form == "%":
            return f"{value:.0%}".removesuffix("%")
        if form == "million":
            return f"{value / 1_000_000:g}"
        return f"{value:,}"

    return PLACE.sub(shown, passage)


@pytest.mark.parametrize("page", STATED)
def test_a_page_states_the_figures_that_were_recorded(page: str):
    text = words_of(page)
    passages = [with_figures(passage) for passage in STATED[page]]
    assert [passage for passage in passages if passage not in text] == []


@pytest.mark.parametrize("page", [page for page in PAGES if Path(page).stem not in RECORDS])
def test_no_page_states_a_measured_figure_that_is_in_no_list(page: str):
    text = words_of(page)
    for passage in STATED.get(page, []):
        text = text.replace(with_figures(passage), "")
    unlisted = [text[max(0, found.start() - 40) : found.end()] for found in MEASURED.finditer(text)]
    assert unlisted == [], "add them to tests/docs/figures.yaml"


def test_each_recorded_figure_says_when_how_and_of_which_state_it_was_measured():
    recorded = figures.read()
    names = [figure["name"] for figure in recorded]
    assert names == sorted(set(names))
    for figure in recorded:
        assert list(figure) == ["name", "value", "unit", "date", "command", "commit", "machine"]
        assert all(figure[key] != "" for key in figure), figure


def test_a_benchmark_records_the_numbers_of_its_rows_and_keeps_those_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    file = tmp_path / "figures.json"
    other = {**figures.read()[0], "name": "other/figure", "value": 7}
    old = {**other, "name": "plan/fast/300/CPU s", "value": 9}
    file.write_text(json.dumps([other, old]), encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["benchmarks/plan.py", "--units", "300", "--record"])
    assert figures.take_option()
    row = {"workflow": "fast", "units": 300, "CPU s": 1.5, "equal": True, "missing": None}
    figures.record([row], file)
    kept, new = figures.read(file)
    assert kept == other
    assert new["name"] == "plan/fast/300/CPU s"
    assert new["value"] == 1.5
    assert new["command"] == "python benchmarks/plan.py --units 300"
    assert not figures.take_option()
