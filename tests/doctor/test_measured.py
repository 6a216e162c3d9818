"""The doctor measures a chat model, and questions use the results."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import typer

from pipeline.doctor.chat_model import LongCall
from pipeline.models.measured import FILE, Measured, MeasuredModels
from pipeline.query.answer import Answer
from tests.doctor.test_doctor import CALLS_ALONE, CALLS_AT_ONCE, KEY, cutting, refusing
from tests.projects import ProjectFolder, new_project
from tests.servers.openai_server import OpenAIServer

USUAL_CALLS = CALLS_ALONE + CALLS_AT_ONCE
PRICE = "models.chat.default.price={input: 2, output: 8}"


@pytest.fixture
def project(tmp_path: Path, postgres_url: str, openai: OpenAIServer) -> ProjectFolder:
    """Create a project whose documents have about 20,000 tokens."""
    documents = {
        f"{town}.txt": (
            f"{town}\n\n"
            + " ".join(
                f"In the year {year} the town of {town} had {year % 97} boats in its harbour."
                for year in years
            )
        )
        for town, years in (
            (f"Tarn{name}", range(1500, 1760)) for name in ("wick", "ford", "holm", "stead", "by")
        )
    }
    return new_project(
        tmp_path / "p", postgres_url, documents, openai, input={"file_pattern": "**/*.txt"}
    )


def looked(
    project: ProjectFolder, *overrides: str, long: bool = False, consents: bool = True
) -> tuple[str, list[str]]:
    """Return the doctor's finding on the context, and the calls it asked consent for."""
    asked: list[LongCall] = []

    def consent(call: LongCall) -> bool:
        asked.append(call)
        return consents

    with project.open(*project.endpoint_overrides, *overrides) as opened:
        findings = opened.doctor(long, consent)
    [context] = [finding for finding in findings if finding.what == "default context"]
    return f"{context.verdict}: {context.fact}", list(map(str, asked))


def measured(project: ProjectFolder) -> Measured:
    [found] = json.loads((project.root / FILE).read_text())["models"].values()
    return Measured(**found)


def answered(project: ProjectFolder, *overrides: str, mode: str = "hybrid") -> Answer:
    with project.open(*project.endpoint_overrides, "query.chunk_top_k=1000", *overrides) as opened:
        return opened.query("How many boats had Tarnwick in 1731?", mode=mode)


def test_one_call_that_was_consented_to_measures_a_server_that_cuts(
    project: ProjectFolder, openai: OpenAIServer
):
    openai.context_tokens = 8192
    said, asked = looked(project, PRICE)
    assert asked == [
        "chat model 'default': a prompt of about 30,000 tokens shows how much it reads (about"
        " 0.0600)"
    ]
    assert openai.count("chat") == USUAL_CALLS
    assert said.startswith("warning: the server's context is about 8,")
    assert 7700 < (measured(project).window or 0) < 8700
    assert KEY not in (project.root / FILE).read_text()
    assert openai.base_url not in (project.root / FILE).read_text()


def test_one_call_measures_a_server_that_refuses(project: ProjectFolder, openai: OpenAIServer):
    openai.reply = refusing(8192)
    said, _ = looked(project)
    # The refused prompt is sent once more without a limit on the reply, which may have been at
    # fault.
    assert openai.count("chat") == USUAL_CALLS + 1
    assert "it refuses those" in said
    assert 7700 < (measured(project).window or 0) < 8700


def test_without_consent_nothing_long_is_sent(project: ProjectFolder, openai: OpenAIServer):
    openai.context_tokens = 8192
    said, asked = looked(project, consents=False)
    assert (len(asked), openai.count("chat")) == (1, USUAL_CALLS)
    assert said.startswith(
        "warning: prompts of 4,000 tokens are read from their start; queries and summaries may need"
    )
    assert max(request.prompt_tokens for request in openai.requests) < 5000


def test_a_command_without_a_person_asks_nothing_and_says_what_it_sends(
    project: ProjectFolder, openai: OpenAIServer
):
    openai.context_tokens = 8192
    assert "30,000, which was not tried" in project.invoke("doctor").stdout
    assert max(request.prompt_tokens for request in openai.requests) < 5000
    done = project.invoke("doctor", "--long", "--set", PRICE)
    assert (
        done.stderr
        == "graphmill: chat model 'default': a prompt of about 30,000 tokens shows how much it"
        " reads (about 0.0600)\n"
    )


def test_who_breaks_off_at_the_question_is_asked_and_examined_no_further(
    project: ProjectFolder, openai: OpenAIServer, monkeypatch: pytest.MonkeyPatch
):
    def broken_off(prompt: str) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr(f"{typer.confirm.__module__}.visible_prompt_func", broken_off)
    done = project.invoke("doctor")
    assert (done.exit_code, done.stdout) == (130, "")
    assert max(request.prompt_tokens for request in openai.requests) < 5000


def test_what_was_measured_is_remembered_until_it_is_measured_anew(
    project: ProjectFolder, openai: OpenAIServer
):
    openai.context_tokens = 8192
    looked(project)
    said, asked = looked(project)
    assert asked == []
    assert "as measured on" in said
    openai.context_tokens = None
    said, asked = looked(project, long=True)
    assert said == "ok: prompts of 30,000 tokens are read from their start"
    assert measured(project).window is None
    assert looked(project) == ("ok: prompts of 30,000 tokens are read from their start", [])


def test_a_server_that_says_nothing_of_what_it_cuts_is_searched_when_that_is_wished(
    project: ProjectFolder, openai: OpenAIServer
):
    openai.reply = cutting(8192)
    said, _ = looked(project)
    assert said.startswith("warning: prompts of 4,000 tokens are read, of 30,000 the start is lost")
    assert measured(project).window == 4000
    looked(project, long=True)
    assert 7400 < (measured(project).window or 0) < 9000


def test_questions_are_kept_within_the_window(project: ProjectFolder, openai: OpenAIServer):
    with project.open() as opened:
        opened.run("fast")
    openai.context_tokens = 8192
    before = answered(project)
    assert before.tokens["prompt"] > 8192
    [unread] = [note for note in before.notes if "the endpoint counted" in note]
    assert "--long" in unread
    looked(project)
    after = answered(project)
    assert after.tokens["prompt"] < 6300
    assert len(after.references) > 0
    assert any("max_total_tokens is 6," in note for note in after.notes)
    assert not any("the endpoint counted" in note for note in after.notes)
    elsewhere = answered(
        project, "models.chat.default.model=another"
    )  # of another model nothing is known
    assert elsewhere.tokens["prompt"] > 8192


def test_json_is_asked_for_by_a_schema_where_that_was_found_to_work(
    project: ProjectFolder, openai: OpenAIServer
):
    with project.open() as opened:
        opened.run("fast")

    def formats() -> list[str]:
        openai.forget()
        project.root.joinpath("data", "cache.sqlite").unlink(missing_ok=True)
        answered(project)
        return [
            request.body.get("response_format", {}).get("type", "") for request in openai.requests
        ]

    assert formats() == ["", ""]
    looked(project)
    assert formats() == ["json_schema", ""]  # of the keywords; an answer is prose
    openai.json_ability = False
    looked(project)
    assert formats() == ["", ""]


def test_of_two_who_measure_at_one_moment_neither_is_lost(tmp_path: Path):
    with ThreadPoolExecutor(8) as pool:
        list(
            pool.map(
                lambda n: MeasuredModels(tmp_path).note(f"model {n}", window=1000 + n), range(64)
            )
        )
    assert [MeasuredModels(tmp_path).of(f"model {n}").window for n in range(64)] == [
        1000 + n for n in range(64)
    ]


def test_a_damaged_file_is_as_none_and_said_so(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    models = MeasuredModels(tmp_path)
    models.note("a", window=8192, tried=30_000)
    assert models.of("a") == Measured(8192, 30_000)
    assert models.of("b") == Measured()
    (tmp_path / FILE).write_text("{}")
    assert models.of("a") == Measured()
    assert "measures the models again" in capfd.readouterr().err


@pytest.mark.parametrize("window", [0, -5, "8192", 1e300, []])
def test_a_window_that_is_none_is_not_what_was_measured(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], window: object
):
    (tmp_path / FILE).parent.mkdir()
    (tmp_path / FILE).write_text(json.dumps({"models": {"a": {"window": window}}}))
    assert MeasuredModels(tmp_path).of("a").longest_prompt() is None
    assert "measures the models again" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("window", "prompt"), [(None, None), (8192, 6192), (4096, 3072), (128_000, 126_000)]
)
def test_a_reply_has_room_in_the_window(window: int | None, prompt: int | None):
    assert Measured(window).longest_prompt() == prompt
