"""A run that may spend half of what it needs: it stops there, says so, and the next one ends as if
nothing had been."""

from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.engine.run_options import RunOptions
from pipeline.errors import BudgetError
from tests.corpora import cut_by_paragraphs, voyages
from tests.projects import ProjectFolder, new_project
from tests.servers.openai_faults import canonical
from tests.servers.openai_server import OpenAIServer, Request
from tests.sizes import size
from tests.states import models, postgres_rows, table_hashes

UNITS = size(40, 400)
CONCURRENCY = 4
INPUT_PRICE, OUTPUT_PRICE, EMBEDDING_PRICE = 0.15, 0.60, 0.02


def new_folder(root: Path, postgres_url: str, endpoint: OpenAIServer) -> ProjectFolder:
    priced = models(endpoint, price={"input": INPUT_PRICE, "output": OUTPUT_PRICE})
    priced["embedding"]["default"]["price"] = {"input": EMBEDDING_PRICE}
    folder = new_project(root, postgres_url, voyages(UNITS), models=priced)
    cut_by_paragraphs(folder)
    return folder


def state(folder: ProjectFolder, postgres_url: str) -> tuple[object, object]:
    with folder.open() as project:
        return table_hashes(project), postgres_rows(postgres_url, project.settings.workspace)


def cost(request: Request) -> float:
    if request.kind == "embeddings":
        return request.prompt_tokens * EMBEDDING_PRICE / 1e6
    return (request.prompt_tokens * INPUT_PRICE + request.completion_tokens * OUTPUT_PRICE) / 1e6


def tokens(request: Request) -> int:
    return request.prompt_tokens + request.completion_tokens


@pytest.mark.parametrize(("option", "spent"), [("max_cost", cost), ("max_tokens", tokens)])
def test_half_of_what_is_needed(
    tmp_path: Path,
    postgres_url: str,
    openai: OpenAIServer,
    option: str,
    spent: Callable[[Request], float],
):
    whole = new_folder(tmp_path / "whole", postgres_url, openai)
    with whole.open() as project:
        report = project.run("index")
    each = [spent(request) for request in openai.requests]
    if option == "max_cost":
        assert report.totals["cost"] == pytest.approx(sum(each))
    limit = sum(each) / 2
    openai.forget()

    folder = new_folder(tmp_path / "p", postgres_url, openai)
    with folder.open() as project:
        options = RunOptions(**{option: limit if option == "max_cost" else int(limit)})
        with pytest.raises(
            BudgetError, match=f"--{option.replace('_', '-')} .* run again"
        ) as stopped:
            project.run("index", options=options)
        last = project.status()
    assert stopped.value.exit_code == 5
    assert last
    assert (last["outcome"], last["exit_code"]) == ("stopped", 5)
    assert limit * 0.999 <= sum(map(spent, openai.requests)) <= limit + CONCURRENCY * max(each)

    with folder.open() as project:
        assert project.run("index").outcome == "completed"
    assert state(folder, postgres_url) == state(whole, postgres_url)
    asked = [canonical(request.body) for request in openai.requests if request.kind != "models"]
    assert len(asked) == len(set(asked))


def test_the_command_ends_with_5_and_says_how_to_go_on(
    tmp_path: Path, postgres_url: str, openai: OpenAIServer
):
    folder = new_folder(tmp_path / "p", postgres_url, openai)
    stopped = folder.invoke("run", "--max-tokens", "2000")
    assert stopped.exit_code == 5
    assert "--max-tokens 2,000 are used; everything answered is kept: run again" in stopped.stderr
    assert "Traceback" not in stopped.stderr
    assert folder.report("status")["outcome"] == "stopped"
