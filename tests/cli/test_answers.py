"""What an answer looks like in a terminal."""

import io
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pipeline.cli.ask import AnswerPrinter, print_sources
from pipeline.cli.wrapping import columns_of
from pipeline.query.answer import answer
from tests.query.memory_stores import ScriptedChat, question, resources, village
from tests.query.reported import reader, reported_village


def printed(
    said: str, capsys: pytest.CaptureFixture[str], all_sources: bool = False, **wishes: Any
) -> str:
    chat = ScriptedChat([said])
    found = answer(question(mode="naive", **wishes), resources(village(), chat))
    AnswerPrinter().print_end(found, all_sources)
    return capsys.readouterr().out


def test_cited_sources_come_first_and_the_others_are_counted(capsys: pytest.CaptureFixture[str]):
    assert printed("Cid sued [ref:3], Ada taught [ref:1].", capsys) == (
        "\n\nSources:\n  [3] Doc-2 (doc-2.txt)\n  [1] Doc-1 (doc-1.txt)\n"
        "\nand 2 other passages found, not cited: --all-sources\n"
    )


def test_the_title_of_a_source_looks_like_no_other_source(capsys: pytest.CaptureFixture[str]):
    chat = ScriptedChat(["Cid sued [ref:1]."])
    found = answer(question(mode="naive"), resources(village(), chat))
    forged = replace(found.cited[0], title="News\n  [2] Ledger (ledger.txt)", source="[3] a.txt")
    print_sources(replace(found, cited=(forged,)), "")
    line = capsys.readouterr().out.splitlines()[2]
    assert line == "  [1] News (2) Ledger (ledger.txt) ((3) a.txt)"


def test_notes_follow_the_answer_where_both_go_to_one_file(tmp_path: Path):
    both = tmp_path / "both.txt"
    with (
        both.open("a") as out,
        both.open("a", buffering=1) as errors,
        redirect_stdout(out),
        redirect_stderr(errors),
    ):
        AnswerPrinter().print_end(
            answer(
                question(mode="naive"), resources(village(), ScriptedChat(["Cid sued [ref:3]."]))
            )
        )
    assert both.read_text().startswith("\ngraphmill: 1 call")


def test_all_sources_are_listed_on_demand(capsys: pytest.CaptureFixture[str]):
    told = printed("Cid sued [ref:3].", capsys, all_sources=True)
    assert [line[2:5] for line in told.splitlines() if line.startswith("  [")] == [
        "[3]",
        "[1]",
        "[2]",
        "[4]",
    ]
    assert "--all-sources" not in told


@pytest.mark.parametrize("wishes", [{"min_score": 1.0}, {"max_total_tokens": 10}, {}])
def test_no_sources_after_an_abstention(capsys: pytest.CaptureFixture[str], wishes: dict[str, Any]):
    assert "Sources" not in printed("[NO ANSWER] Nothing is said of it.", capsys, **wishes)


def test_without_a_model_what_is_shown_is_cited_and_facts_have_their_source(
    capsys: pytest.CaptureFixture[str],
):
    given = answer(question(mode="hybrid"), resources(village()))
    assert "- Ada -> Bea: teaching [" in given.text
    number = {entry.chunk_id: entry.id for entry in given.references}["c1"]
    assert f"- Ada -> Bea: teaching [{number}]" in given.text
    assert {entry.chunk_id for entry in given.cited} == {"c1", "c2", "c3"}
    few = answer(question(mode="hybrid", chunk_top_k=1), resources(village()))
    assert len(few.cited) == 1


def test_reports_that_an_answer_cites_are_listed(capsys: pytest.CaptureFixture[str]):
    chat = reader(answer=lambda _: "Dov was sued [Data: Reports (3)].")
    found = answer(question(mode="community"), resources(reported_village(), chat))
    AnswerPrinter().print_end(found)
    told = capsys.readouterr().out
    assert "Reports:\n  [3] Court (level 0)\n" in told
    assert "  [1] Doc-2 (doc-2.txt)" in told
    assert "[2]" not in told


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_sources_and_notes_are_wrapped_as_the_answer_is(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "40")
    store = village()
    store.chunk_rows["title"] = "Of the school that Ada has kept in the village since the flood"
    given = answer(
        question(mode="naive"), resources(store, ScriptedChat(["Ada [ref:1]. ![x](http://a.b/c)"]))
    )
    with redirect_stdout(Terminal()) as out, redirect_stderr(Terminal()) as err:
        AnswerPrinter().print_end(given)
    assert max(map(columns_of, [*out.getvalue().splitlines(), *err.getvalue().splitlines()])) <= 40
    assert (
        "\n  [1] Of the school that Ada has kept in\n      the village since the flood\n"
        in out.getvalue()
    )
    assert err.getvalue().startswith("graphmill: 1 address that nothing shown\nholds: taken")
