"""Replies that end too early: what is asked again, what is kept, what is told, and what a later run
pays for."""

import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.projects import NO_STORE, ProjectFolder, new_project
from tests.servers.openai_prefixes import PrefixCache
from tests.servers.openai_replies import ENDED, Messages, default_reply
from tests.servers.openai_server import OpenAIServer, Reply
from tests.states import is_extraction, set_args, table_hashes

TEXTS = {
    "harbour.txt": (
        "Mira Vale built the Harrow Light. The Harrow Light stands at Quill Point. "
        "Mira Vale met Anselm Torr. Anselm Torr left Quill Point.\n"
    ),
    "institute.txt": (
        "Idra Senn founded the Brack Institute. Anselm Torr joined the Brack Institute. "
        "Idra Senn met Governor Pell. Governor Pell opened the Tollen Observatory.\n"
    ),
}
CUT_CHARACTERS = 500
"""More than the reply to half of a text has, and less than that to a whole one."""
Answer = Callable[[Messages, Mapping[str, Any]], Reply]


def is_asked_for_a_graph(messages: Messages) -> bool:
    return ENDED in str(messages)


def cut_to(characters: int, finish_reason: str = "stop") -> Answer:
    """Answer as usual, as a gateway does that lets only so many characters through."""

    def answer(messages: Messages, body: Mapping[str, Any]) -> Reply:
        usual = default_reply(messages, body)
        text = usual.text or ""
        if not is_asked_for_a_graph(messages) or len(text) <= characters:
            return usual
        return replace(usual, text=text[:characters], finish_reason=finish_reason)

    return answer


def half(messages: Messages, body: Mapping[str, Any]) -> Reply:
    """Cut each reply in its middle, inside a record, and say that it is whole."""
    usual = default_reply(messages, body)
    if not is_asked_for_a_graph(messages):
        return usual
    text = usual.text or ""
    middle = text.index("<|>", len(text) // 2)
    return replace(usual, text=text[: middle + 5])


def without_end_mark(messages: Messages, body: Mapping[str, Any]) -> Reply:
    usual = default_reply(messages, body)
    return replace(usual, text=(usual.text or "").removesuffix(ENDED))


@pytest.fixture
def folder(tmp_path: Path, openai: OpenAIServer, postgres_url: str) -> ProjectFolder:
    return new_project(tmp_path / "p", postgres_url, TEXTS, endpoint=openai)


def extractions(openai: OpenAIServer) -> int:
    return sum(map(is_extraction, openai.requests))


def kinds(folder: ProjectFolder) -> dict[str, list[str]]:
    """Kind of reject -> reasons."""
    rows = folder.invoke("rejects", "index", "--json").json
    found: dict[str, list[str]] = {}
    for row in rows:
        found.setdefault(row["kind"], []).append(row["reason"])
    return found


def names(folder: ProjectFolder) -> set[str]:
    with folder.open() as project:
        return set(project.table("extractions", "index")["name"]) - {""}


def tables(folder: ProjectFolder) -> dict[str, str]:
    with folder.open() as project:
        return {name: hash for name, hash in table_hashes(project).items() if name != "rejects"}


def calls_of_plan(plan: dict[str, Any], step: str = "extract_graph") -> list[int]:
    [found] = [each for each in plan["steps"] if each["step"] == step]
    return list(found["estimate"]["calls"])


@pytest.mark.parametrize("finish_reason", ["stop", "length"])
def test_a_reply_that_ends_inside_a_record_is_asked_for_in_halves_once(
    folder: ProjectFolder, openai: OpenAIServer, finish_reason: str
):
    openai.reply = cut_to(CUT_CHARACTERS, finish_reason)
    report = folder.report("index", "index")
    assert (report["exit_code"], report["outcome"]) == (0, "completed")
    assert kinds(folder) == {"recovered": ["truncated"] * 2}
    assert extractions(openai) == 2 * 3
    assert {"Mira Vale", "Anselm Torr", "Tollen Observatory"} <= names(folder)
    openai.forget()
    assert folder.report("index", "index", "--force", "extract_graph")["totals"]["calls"] == 0
    assert extractions(openai) == 0


def test_a_night_whose_replies_were_all_cut_keeps_their_whole_records_and_ends_above_the_limit(
    folder: ProjectFolder, openai: OpenAIServer
):
    openai.reply = half
    report = folder.report("index", "index")
    assert (report["exit_code"], report["outcome"]) == (3, "completed_with_rejects")
    assert report["health"]["cut_units"] == 2
    assert any("the replies to 2 text units were cut" in note for note in report["notes"])
    assert kinds(folder) == {"cut": ["truncated"] * 2}
    assert names(folder)
    openai.forget()
    assert folder.report("plan", "index", "--force", "extract_graph")["estimate"]["calls"] == [0, 0]
    assert folder.report("index", "index", "--force", "extract_graph")["totals"]["calls"] == 0
    folder.write("new.txt", "Otto Prinn saw Quill Point. Otto Prinn met Idra Senn.\n")
    openai.reply = default_reply
    folder.report("index", "index")
    assert extractions(openai) == 1


def test_a_retry_heals_what_was_cut_and_its_plan_says_what_that_costs(
    folder: ProjectFolder, openai: OpenAIServer, tmp_path: Path
):
    openai.reply = half
    folder.report("index", "index")
    openai.reply = default_reply
    openai.forget()
    assert calls_of_plan(folder.report("retry", "index", "--plan"))[0] == 2
    assert extractions(openai) == 0
    report = folder.report("retry", "index")
    assert (report["exit_code"], report["totals"]["rejects"], extractions(openai)) == (0, 0, 2)
    assert kinds(folder) == {}
    fresh = new_project(tmp_path / "fresh", NO_STORE, TEXTS, endpoint=openai)
    fresh.report("index", "index")
    assert tables(folder) == tables(fresh)


def test_a_retry_in_vain_keeps_what_there_is(folder: ProjectFolder, openai: OpenAIServer):
    openai.reply = half
    folder.report("index", "index")
    before = tables(folder)
    report = folder.report("retry", "index")
    assert report["exit_code"] == 3
    assert tables(folder) == before
    assert kinds(folder) == {"cut": ["truncated"] * 2}
    openai.forget()
    assert folder.report("index", "index", "--force", "extract_graph")["totals"]["calls"] == 0


def make_halves_of_the_cache(folder: ProjectFolder, of: int) -> None:
    """Leave the first replies as an earlier version kept half ones: flagged as good."""
    with closing(sqlite3.connect(folder.root / "data" / "cache.sqlite")) as cache:
        rows = cache.execute("SELECT key, text FROM completions ORDER BY key").fetchall()
        for key, text in [row for row in rows if ENDED in row[1]][:of]:
            middle = text.index("<|>", len(text) // 2)
            cache.execute(
                "UPDATE completions SET text = ?, valid = 1, digest = NULL WHERE key = ?",
                [text[: middle + 5], key],
            )
        cache.commit()


def test_half_replies_in_the_cache_heal_with_the_next_run_of_their_step_and_plan_counts_them_first(
    folder: ProjectFolder, openai: OpenAIServer
):
    folder.report("index", "index")
    whole = names(folder)
    openai.forget()
    force = ("index", "--force", "extract_graph")
    assert calls_of_plan(folder.report("plan", *force)) == [0, 0]
    make_halves_of_the_cache(folder, 1)
    assert calls_of_plan(folder.report("plan", *force))[0] == 2
    report = folder.report("index", *force)
    assert (report["exit_code"], extractions(openai)) == (0, 2)
    assert kinds(folder) == {"recovered": ["truncated"]}
    assert whole <= names(folder)
    openai.forget()
    assert calls_of_plan(folder.report("plan", *force))[0] == 0
    folder.report("index", *force)
    assert extractions(openai) == 0


def test_replies_without_an_end_mark_are_counted_told_and_asked_again_only_when_that_is_wished(
    folder: ProjectFolder, openai: OpenAIServer
):
    openai.reply = without_end_mark
    report = folder.report("index", "index")
    assert (report["exit_code"], report["outcome"], report["totals"]["rejects"]) == (
        0,
        "completed",
        0,
    )
    assert (report["totals"]["decided"], report["health"]["share_without_end_mark"]) == (2, 1.0)
    assert any("100% of the replies have no end mark" in note for note in report["notes"])
    assert kinds(folder) == {"unended": ["unended"] * 2}
    openai.forget()
    assert calls_of_plan(folder.report("retry", "index", "--plan")) == [0, 0]
    folder.report("retry", "index")
    assert extractions(openai) == 0
    assert calls_of_plan(folder.report("retry", "index", "--unended", "--plan"))[0] == 2
    before = tables(folder)
    folder.report("retry", "index", "--unended")
    assert extractions(openai) == 2
    assert tables(folder) == before
    openai.reply = default_reply
    openai.forget()
    healed = folder.report("retry", "index", "--unended")
    assert extractions(openai) == 2
    assert healed["health"]["share_without_end_mark"] == 0.0
    assert kinds(folder) == {}
    openai.forget()
    assert folder.report("index", "index", "--force", "extract_graph")["totals"]["calls"] == 0


def test_an_endless_row_of_such_retries_never_replaces_a_reply_by_one_that_is_no_better(
    folder: ProjectFolder, openai: OpenAIServer
):
    openai.reply = without_end_mark
    folder.report("index", "index")
    before = names(folder)

    def shorter(messages: Messages, body: Mapping[str, Any]) -> Reply:
        usual = without_end_mark(messages, body)
        return replace(usual, text=(usual.text or "").partition("##")[0])

    openai.reply = shorter
    folder.report("retry", "index", "--unended")
    assert names(folder) == before


def test_a_text_whose_prompt_the_server_cuts_silently_is_asked_about_in_halves_and_is_cut(
    tmp_path: Path, openai: OpenAIServer, postgres_url: str
):
    """The server reads the end of a long prompt, says nothing, and counts what it has read. Each
    half of the long text is longer than its window too."""
    long = " ".join(f"Mira Vale met Anselm Torr in the year {year}." for year in range(1800, 1900))
    folder = new_project(
        tmp_path / "p", postgres_url, {"long.txt": long, "short.txt": TEXTS["harbour.txt"]}, openai
    )
    openai.context_tokens = 300

    def answer(messages: Messages, body: Mapping[str, Any]) -> Reply:
        return Reply(f'("entity"<|>Mira Vale<|>person<|>A keeper.){ENDED}')

    openai.reply = answer
    report = folder.report("index", "index")
    assert report["exit_code"] == 3
    assert kinds(folder) == {"cut": ["unread"]}
    assert "the model has read only a part of the text" in folder.invoke("rejects", "index").stdout
    openai.forget()
    assert folder.report("index", "index", "--force", "extract_graph")["totals"]["calls"] == 0
    openai.context_tokens = None
    assert folder.report("retry", "index")["exit_code"] == 0
    assert kinds(folder) == {}


def test_a_server_that_counts_only_uncached_tokens_is_not_taken_for_one_that_cuts_prompts(
    folder: ProjectFolder, openai: OpenAIServer
):
    openai.prefix_cache = PrefixCache()
    for number, year in enumerate(range(1800, 1808)):
        met = " ".join(
            f"Mira Vale {number} met Anselm Torr {number} in {year}, part {part}."
            for part in range(5)
        )
        folder.write(f"met{number}.txt", met)
    report = folder.report("index", "index")
    assert (report["exit_code"], report["totals"]["rejects"]) == (0, 0)
    assert kinds(folder) == {}
    assert extractions(openai) == 10
    openai.forget()
    assert calls_of_plan(folder.report("plan", "index", "--force", "extract_graph")) == [0, 0]
    assert folder.report("index", "index", "--force", "extract_graph")["totals"]["calls"] == 0


@pytest.mark.parametrize("usage", ["none", "zero"])
def test_an_endpoint_that_counts_nothing_is_not_taken_for_one_that_cuts_prompts(
    folder: ProjectFolder, openai: OpenAIServer, usage: str
):
    openai.usage = usage
    assert folder.report("index", "index")["outcome"] == "completed"
    assert kinds(folder) == {}


def with_bad_records(bad: int, good: int) -> Answer:
    """Answer about each text with so many records that cannot be read among good ones."""

    def answer(messages: Messages, body: Mapping[str, Any]) -> Reply:
        if not is_asked_for_a_graph(messages):
            return default_reply(messages, body)
        found = [f'("entity"<|>Mira Vale {number}<|>person<|>A keeper.)' for number in range(good)]
        broken = [f'("entity"<|>""<|>person<|>No name {number}.)' for number in range(bad)]
        return Reply("##\n".join([*found, *broken]) + ENDED)

    return answer


@pytest.mark.parametrize(("bad", "good", "exit_code"), [(5, 5, 3), (1, 15, 0)])
def test_a_night_that_loses_half_of_its_records_ends_above_the_limit_and_one_in_fifteen_does_not(
    folder: ProjectFolder, openai: OpenAIServer, bad: int, good: int, exit_code: int
):
    openai.reply = with_bad_records(bad, good)
    report = folder.report("index", "index")
    assert report["exit_code"] == exit_code
    assert kinds(folder) == {"record": ["record"] * 2 * bad}
    assert report["totals"]["rejects"] == 2 * bad


def test_what_a_setting_drops_is_listed_apart_and_counts_for_nothing(
    folder: ProjectFolder, openai: OpenAIServer
):
    set_args(folder, extract_graph={"ungrounded": "drop"})
    openai.reply = with_bad_records(0, 9)
    folder.write("named.txt", "Mira Vale 0 met Mira Vale 1.\n")
    report = folder.report("index", "index")
    assert (report["exit_code"], report["outcome"], report["totals"]["rejects"]) == (
        0,
        "completed",
        0,
    )
    assert report["totals"]["decided"] >= 20
    [step] = [step for step in report["steps"] if step["step"] == "extract_graph"]
    assert step["decided_reasons"] == {"ungrounded": step["decided"]}
    listed = folder.invoke("rejects", "index").stdout
    assert "index: decided: " in listed
    assert "index: lost" not in listed
    assert folder.invoke("runs", "--json").json[0]["decided"] == report["totals"]["decided"]
    assert folder.report("status")["totals"]["decided"] == report["totals"]["decided"]
