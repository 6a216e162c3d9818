"""Files are converted without a run, all of them or a sample, from which the others' price is
estimated."""

import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.runs.conversions import ConversionReport, estimate_rest
from tests.projects import NO_STORE, ProjectFolder, new_project
from tests.servers.openai_server import OpenAIServer, openai_server

FILES = 30


@pytest.fixture(scope="module")
def endpoint() -> Iterator[OpenAIServer]:
    with openai_server() as server:
        yield server


@pytest.fixture
def folder(tmp_path: Path, endpoint: OpenAIServer) -> ProjectFolder:
    """Files of different lengths, whose converter is a command."""
    folder = new_project(tmp_path / "p", NO_STORE, {}, endpoint, workflow="index")
    folder.edit_settings(input={"converter": {"rtf": ["cat", "{file}"]}})
    for number in range(FILES):
        names = [f"Person {number} {place}" for place in range(20 * (1 + number % 7))]
        folder.write(f"f{number:02}.rtf", " built the harbour. ".join(names))
    return folder


def test_a_sample_estimates_what_a_plan_after_all_conversions_says(
    folder: ProjectFolder, endpoint: OpenAIServer
):
    asked = len(endpoint.requests)
    assert folder.report("plan")["estimate"]["expected"]["calls"] == 0
    planned = folder.report("plan", "--sample", "10")
    rest = planned["by_sample"]
    assert (rest["sample"]["converted"], rest["sample"]["remaining"]) == (10, 20)
    assert "for the other 20 files add, with 95 % probability: " in " ".join(planned["notes"])
    known = planned["estimate"]["expected"]["calls"]
    assert folder.report("convert")["converted"] == 20
    exact = folder.report("plan")["estimate"]["expected"]
    assert len(endpoint.requests) == asked
    for name in ("calls", "cost"):
        least, expected, most = rest[name]
        added = exact[name] - planned["estimate"]["expected"][name]
        assert least <= added <= most
        assert least < expected < most
    assert exact["calls"] > known > 0
    assert folder.invoke("convert").stdout.startswith("0 files converted")
    assert "no other file" in " ".join(folder.report("plan", "--sample", "5")["notes"])


def test_files_of_an_archive_are_converted(folder: ProjectFolder):
    with zipfile.ZipFile(folder.root / "data" / "input" / "more.zip", "w") as archive:
        for number in range(3):
            archive.writestr(f"z{number}.rtf", f"Person {number} built the harbour.")
    sample = folder.report("plan", "--sample", str(FILES + 2))["by_sample"]["sample"]
    assert (sample["converted"], sample["failed"], sample["remaining"]) == (FILES + 2, 0, 1)
    rest = folder.report("convert")
    assert (rest["converted"], rest["failed"]) == (1, 0)


def test_a_sample_of_one_file_says_little_but_not_nothing():
    estimate = estimate_rest(
        ConversionReport(1, 0, 9, 1.0, (100,)),
        {"calls": 0, "cost": None},
        {"calls": 10, "cost": None},
    )
    calls = estimate.amounts["calls"]
    assert calls is not None
    assert calls[2] < 10 * 9 * 4


def test_an_estimate_is_wider_where_files_differ_more():
    even = ConversionReport(4, 0, 10, 8.0, (100, 101, 99, 100))
    uneven = ConversionReport(4, 0, 10, 8.0, (10, 190, 10, 190))
    before, after = {"calls": 5, "cost": None}, {"calls": 25, "cost": None}
    found = [estimate_rest(sample, before, after) for sample in (even, uneven)]
    spans = []
    for one in found:
        calls = one.amounts["calls"]
        assert calls is not None
        assert (calls[1], one.seconds, one.amounts["cost"]) == (pytest.approx(50), 20.0, None)
        spans.append(calls[2] - calls[0])
    assert 0 < spans[0] < spans[1] / 10


def test_a_sample_without_text_estimates_nothing():
    empty = ConversionReport(3, 3, 10, 3.0, (0, 0, 0))
    nothing = {"calls": 0, "cost": 0.0}
    assert estimate_rest(empty, nothing, nothing).amounts["calls"] == (0.0, 0.0, 0.0)
