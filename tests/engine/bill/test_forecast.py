"""Forecasts, compared with the calls of the run that follows."""

import shutil
import socket
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import pipeline.contract.definitions
import pipeline.contract.fingerprint
from pipeline.contract.definitions import _source
from pipeline.engine.bill.expected_calls import ENOUGH, Amount, Estimate
from pipeline.engine.bill.forecast import totals
from pipeline.engine.resources import Resources
from pipeline.engine.run_report import StepReport
from pipeline.engine.workflow import Step
from pipeline.models.endpoint.chat import TOKENS_OF_A_MESSAGE, TOKENS_OF_A_REPLY
from pipeline.runs.services import HASHES_FOLDER
from pipeline.text.tokens import tokenizer
from tests.projects import DOCUMENTS, NO_STORE, ProjectFolder, new_project
from tests.servers.openai_server import Counting, OpenAIServer, openai_server
from tests.sizes import size
from tests.states import in_batches, is_extraction, models, set_args, step_of

EXAMPLES = Path(__file__).parents[3] / "data" / "input"
MODEL = "gpt-4o-mini"
PRICE = {"input": 0.15, "output": 0.6}
WITHIN = 0.02


def voyages(count: int) -> dict[str, str]:
    return {
        f"log-{number:03}.txt": (
            f"Captain Orla Venn of ship {number} sailed from Port {chr(65 + number % 26)}ella to"
            f" Tessing Harbour with {7 * number + 1} barrels of oil for Merchant"
            f" {chr(65 + number % 17)}orren."
        )
        for number in range(count)
    }


def examples() -> dict[str, str]:
    """Write the example corpus (letters, minutes, a gazetteer, Chinese), or a part of it."""
    paths = [path for path in sorted(EXAMPLES.rglob("*")) if path.suffix in (".txt", ".md")][
        size(2, 0) :: size(5, 1)
    ]
    return {
        path.relative_to(EXAMPLES).as_posix(): path.read_text(encoding="utf-8") for path in paths
    }


def catalogue() -> dict[str, str]:
    """Return texts of few words and many names, each said twice."""
    return {
        f"{place}.md": "\n\n".join(
            f"{place} Hall. {place} Bridge met {place} Gate and Anselm Torr." for _ in range(2)
        )
        for place in ("Quill", "Harrow", "Brack", "Tollen", "Pell", "Asken")
    }


CORPORA: dict[str, Callable[[], dict[str, str]]] = {
    "voyages": lambda: voyages(size(20, 40)), "examples": examples, "catalogue": catalogue,
    **size({}, {"three": lambda: dict(DOCUMENTS)}),
}  # fmt: skip


@pytest.fixture(scope="module")
def endpoint_of_the_file() -> Iterator[OpenAIServer]:
    """Start an endpoint with a token count like OpenAI's."""
    with openai_server() as server:
        server.counting = Counting(tokenizer(MODEL).count, TOKENS_OF_A_MESSAGE, TOKENS_OF_A_REPLY)
        yield server


@pytest.fixture
def counting(endpoint_of_the_file: OpenAIServer) -> OpenAIServer:
    """Return the endpoint of the file with an empty ledger. No test here scripts its replies."""
    endpoint_of_the_file.forget()
    return endpoint_of_the_file


@pytest.fixture(scope="module")
def indexed_voyages(
    tmp_path_factory: pytest.TempPathFactory, endpoint_of_the_file: OpenAIServer
) -> ProjectFolder:
    """Index twelve voyages once. Tests change copies of the project."""
    root = tmp_path_factory.mktemp("voyages") / "p"
    folder = new_folder(root, endpoint_of_the_file, voyages(12))
    index(folder)
    return folder


def new_folder(
    root: Path, endpoint: OpenAIServer, documents: Mapping[str, str], size: int = 60, **extract: Any
) -> ProjectFolder:
    bound = models(endpoint, model=MODEL, price=PRICE)
    bound["embedding"]["default"]["price"] = {"input": 0.02, "output": 0}
    folder = new_project(root, NO_STORE, documents, models=bound)
    set_args(
        folder,
        chunk_documents={"size": size},
        summarize_descriptions={"max_tokens": 40},
        extract_graph=extract,
    )
    return folder


def foresee(folder: ProjectFolder, workflow: str = "index") -> dict[str, Estimate]:
    with folder.open() as project:
        return {entry.planned.step.id: entry.estimate for entry in project.forecast(workflow)}


def index(folder: ProjectFolder, workflow: str = "index") -> dict[str, StepReport]:
    with folder.open() as project:
        return {step.step: step for step in project.index(workflow).steps}


def sent_for_extraction(endpoint: OpenAIServer) -> int:
    return sum(request.prompt_tokens for request in endpoint.requests if is_extraction(request))


def out_of_range(estimates: Mapping[str, Estimate], reports: Mapping[str, StepReport]) -> list[str]:
    """Return every estimate that its step did not keep to."""
    wrong = []
    for name, estimate in estimates.items():
        report = reports[name]
        held = {
            "calls": (estimate.calls, report.calls),
            "input_tokens": (estimate.input_tokens, report.input_tokens),
            "output_tokens": (estimate.output_tokens, report.output_tokens),
            "cost": (estimate.cost, report.cost),
        }
        wrong += [
            f"{name}: {what} {actual}, not in {ends}"
            for what, (ends, actual) in held.items()
            if ends is None or actual is None or not ends[0] - 1e-9 <= actual <= ends[1] + 1e-9
        ]
    return wrong


def edit(folder: ProjectFolder, documents: Mapping[str, str]) -> None:
    """Edit one document, delete one and add one."""
    first, second, *_ = sorted(documents)
    folder.write(
        first,
        documents[first].replace("the", "this").replace("Captain", "Commodore")
        + "\n\nIdra Senn left.",
    )
    folder.delete(second)
    folder.write(
        "new.txt",
        "Governor Pell opened the Tollen Observatory with Captain Orla Venn of Tessing Harbour.",
    )


@pytest.mark.parametrize("corpus", CORPORA.values(), ids=CORPORA)
def test_the_calls_of_the_run_are_within_the_forecast(
    tmp_path: Path, counting: OpenAIServer, corpus: Callable[[], dict[str, str]]
):
    documents = corpus()
    folder = new_folder(tmp_path / "p", counting, documents)
    first = foresee(folder)
    assert counting.requests == []
    assert out_of_range(first, index(folder)) == []
    assert first["extract_graph"].input_tokens[0] == pytest.approx(
        sent_for_extraction(counting), rel=WITHIN
    )
    assert first["extract_graph"].input_tokens[0] == first["extract_graph"].input_tokens[1]
    counting.forget()
    edit(folder, documents)
    second = foresee(folder)
    assert counting.requests == []
    assert out_of_range(second, index(folder)) == []
    assert second["extract_graph"].input_tokens[0] == pytest.approx(
        sent_for_extraction(counting), rel=WITHIN
    )
    assert 0 < second["extract_graph"].known < second["extract_graph"].rows


@pytest.mark.parametrize("workflow", size(["claims"], ["communities", "claims"]))
def test_reports_and_claims_are_in_the_ranges(
    tmp_path: Path, counting: OpenAIServer, workflow: str
):
    documents = catalogue()
    folder = new_folder(tmp_path / "p", counting, documents)
    set_args(
        folder, workflow, chunk_documents={"size": 60}, report_communities={"max_input_tokens": 500}
    )
    first = foresee(folder, workflow)
    assert counting.requests == []
    assert out_of_range(first, index(folder, workflow)) == []
    edit(folder, documents)
    second = foresee(folder, workflow)
    assert out_of_range(second, index(folder, workflow)) == []
    (folder.root / "prompts" / "report_communities.md").write_text(
        "Give the rating_explanation of:\n$context"
    )
    third = foresee(folder, workflow)
    assert (
        third["report_communities"].calls[0] > 0
    )  # nothing else is to come, so that the communities are known
    assert out_of_range(third, index(folder, workflow)) == []


def test_the_replies_of_some_rows_are_known(tmp_path: Path, counting: OpenAIServer):
    folder = new_folder(tmp_path / "p", counting, voyages(20))
    index(folder)
    shutil.rmtree(folder.root / "data" / "snapshots")
    for name, text in voyages(30).items():
        folder.write(name, text)
    counting.forget()
    estimates = foresee(folder)
    extraction = estimates["extract_graph"]
    assert (extraction.rows, extraction.known, extraction.calls) == (30, 20, (10, 10))
    assert out_of_range(estimates, index(folder)) == []
    assert extraction.input_tokens[0] == pytest.approx(sent_for_extraction(counting), rel=WITHIN)


@pytest.mark.parametrize("gleanings", size([2], [1, 2]))
def test_gleanings_are_in_the_range(tmp_path: Path, counting: OpenAIServer, gleanings: int):
    folder = new_folder(tmp_path / "p", counting, voyages(12), gleanings=gleanings)
    estimates = foresee(folder)
    assert estimates["extract_graph"].calls == (12, 12 * (1 + gleanings))
    assert out_of_range(estimates, index(folder)) == []


def test_after_a_run_there_is_nothing_to_pay(tmp_path: Path, counting: OpenAIServer):
    folder = new_folder(tmp_path / "p", counting, DOCUMENTS)
    index(folder)
    assert set(foresee(folder).values()) == {Estimate()}
    with folder.open() as project:
        sums = totals(project.forecast("index"))
    assert sums == {
        "rows": 0, "known": 0, "calls": [0, 0], "input_tokens": [0, 0], "output_tokens": [0, 0],
        "cost": [0.0, 0.0],
        "expected": vars(Amount()), "guessed": False, "seconds": [0, 0],
    }  # fmt: skip


def test_steps_before_the_change_cost_nothing(
    tmp_path: Path, counting: OpenAIServer, indexed_voyages: ProjectFolder
):
    folder = indexed_voyages.copy(tmp_path / "p")
    set_args(folder, summarize_descriptions={"max_tokens": 30})
    counting.forget()
    estimates = foresee(folder)
    assert estimates["extract_graph"] == estimates["embed_text_units"] == Estimate()
    assert estimates["summarize_descriptions"].rows > 0
    assert out_of_range(estimates, index(folder)) == []


def test_a_plan_works_on_what_changed_alone(
    tmp_path: Path, indexed_voyages: ProjectFolder, monkeypatch: pytest.MonkeyPatch
):
    """A plan works on changed rows in steps with models and in those between; a deletion leaves the
    other rows alone."""
    folder = indexed_voyages.copy(tmp_path / "p")
    folder.delete(min(voyages(12)))
    folder.write("log-005.txt", voyages(12)["log-005.txt"] + " Anselm Torr was aboard.")
    worked_on: dict[str, int] = {}
    call = Resources.call

    def watched(
        resources: Resources, step: Step, inputs: Mapping[str, Any], *rest: Any, **named: Any
    ) -> Any:
        worked_on[step.id] = max(map(len, inputs.values()), default=0)
        return call(resources, step, inputs, *rest, **named)

    monkeypatch.setattr(Resources, "call", watched)
    extraction = foresee(folder)["extract_graph"]
    assert (extraction.rows, extraction.known, extraction.calls) == (11, 10, (1, 1))
    assert {step: worked_on[step] for step in ("load_documents", "chunk_documents", "extract_graph")} == {  # noqa: E501
        "load_documents": 1, "chunk_documents": 1, "extract_graph": 1,
    }  # fmt: skip


def test_former_runs_tell_how_long_replies_are(tmp_path: Path, counting: OpenAIServer):
    folder = new_folder(tmp_path / "p", counting, voyages(ENOUGH + 5))
    before = foresee(folder)["extract_graph"].output_tokens
    actual = index(folder)["extract_graph"].output_tokens
    for path in [
        *(folder.root / "data" / "snapshots").iterdir(),
        folder.root / "data" / "cache.sqlite",
    ]:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    low, high = foresee(folder)["extract_graph"].output_tokens
    assert before[0] < low <= actual <= high
    assert high - low < before[1] - before[0]


def test_batches_are_half_the_price(tmp_path: Path, counting: OpenAIServer):
    folder = new_folder(tmp_path / "p", counting, voyages(12))
    direct = foresee(folder)["extract_graph"]
    in_batches(folder, "extract_graph")
    batched = foresee(folder)["extract_graph"]
    assert direct.cost
    assert batched.cost == pytest.approx((direct.cost[0] / 2, direct.cost[1]))
    few = new_folder(tmp_path / "few", counting, voyages(5))
    in_batches(few, "extract_graph")
    with few.open("models.chat.default.batch.least=6") as project:
        costs = {entry.planned.step.id: entry.estimate.cost for entry in project.forecast("index")}
        report = step_of(project.index("index"))
    assert counting.count("chat")
    assert costs["extract_graph"]
    assert report.cost
    assert costs["extract_graph"][0] <= report.cost <= costs["extract_graph"][1]
    counting.forget()
    assert (batched.calls, batched.input_tokens) == (direct.calls, direct.input_tokens)
    with folder.open("models.chat.default.batch.poll_seconds=0.02") as project:
        cost = step_of(project.index("index")).cost
    assert cost is not None
    assert batched.cost
    assert batched.cost[0] <= cost <= batched.cost[1]


def test_a_model_without_a_price_gives_a_plan_without_a_cost(
    tmp_path: Path, counting: OpenAIServer
):
    folder = new_folder(tmp_path / "p", counting, DOCUMENTS)
    folder.edit_settings(models=models(counting, model=MODEL))
    assert foresee(folder)["extract_graph"].cost is None
    with folder.open() as project:
        assert totals(project.forecast("index"))["cost"] is None


def test_nothing_is_asked_and_nothing_is_written(
    tmp_path: Path,
    counting: OpenAIServer,
    indexed_voyages: ProjectFolder,
    monkeypatch: pytest.MonkeyPatch,
):
    folder = indexed_voyages.copy(tmp_path / "p")
    edit(folder, voyages(12))
    set_args(folder, extract_graph={"gleanings": 1})
    cold = new_folder(tmp_path / "cold", counting, voyages(12))

    def refuse(*_: object) -> None:
        raise AssertionError("no network is used")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    for one in (folder, cold):
        before = contents(one)
        assert foresee(one)["extract_graph"].calls[0] > 0
        assert contents(one) == before


def contents(folder: ProjectFolder) -> dict[str, bytes]:
    """Return the state of every file, without caches: an opened database may write one, and hashes
    of files are kept once the files are some seconds old."""
    caches = ("cache.sqlite", HASHES_FOLDER)
    paths = [
        path
        for path in sorted(folder.root.rglob("*"))
        if path.is_file() and not any(c in str(path) for c in caches)
    ]
    return {str(path): path.read_bytes() for path in paths}


def test_an_upgrade_is_announced_with_its_calls(
    tmp_path: Path, counting: OpenAIServer, monkeypatch: pytest.MonkeyPatch
):
    """A change of code alone asks nothing; a changed prompt, whoever edited it, asks everything
    again."""
    folder = new_folder(tmp_path / "p", counting, DOCUMENTS)
    units = index(folder)["extract_graph"].calls

    def upgraded(name: str) -> str:
        source = _source(name)
        is_it = name == "pipeline.verbs.extract_graph"
        return (
            source.replace("\n    return ", "\n    upgraded = True\n    return ")
            if is_it
            else source
        )

    monkeypatch.setattr(pipeline.contract.definitions, "_source", upgraded)
    monkeypatch.setattr(
        pipeline.contract.fingerprint, "folder_around", lambda _: None
    )  # keeps what is of the disk
    assert planned(folder) == ("run", "code", (0, 0))
    assert index(folder)["extract_graph"].calls == 0
    prompt = folder.root / "prompts" / "extract_graph.md"
    prompt.write_text(
        prompt.read_text(encoding="utf-8").replace("You read a text", "You carefully read a text")
    )
    assert planned(folder) == ("run", "prompt", (units, units))
    assert index(folder)["extract_graph"].calls == units > 0


def planned(folder: ProjectFolder) -> tuple[str, str, tuple[int, int]]:
    """Return the action of the extraction, its reason, and its calls."""
    with folder.open() as project:
        (entry,) = [
            entry for entry in project.forecast("index") if entry.planned.step.id == "extract_graph"
        ]
    return entry.planned.action, entry.planned.reason, entry.estimate.calls


PASSAGE = (
    "Mira Vale built the Harrow Light at Quill Point in 1871, after the wreck of the brig Constance"
    " had cost the town of Quill eleven sailors. The lens was ground by Anselm Torr, who taught"
    " optics at the Brack Institute and had made the first lens of the Tollen Observatory for"
    " Governor Pell. Idra Senn, the founder of the institute, paid for the stone, which came by"
    " barge from the Combs. The light was lit on the second of May."
)


def test_a_passage_of_100_tokens_takes_one_call_of_800_tokens(
    tmp_path: Path, counting: OpenAIServer
):
    assert 100 <= tokenizer(MODEL).count(PASSAGE) <= 110
    folder = new_folder(tmp_path / "p", counting, {"passage.txt": PASSAGE}, size=1200)
    assert index(folder)["extract_graph"].calls == 1
    assert sent_for_extraction(counting) <= 800
