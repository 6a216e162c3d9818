import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.models.parse.graph import Finding, Problem, Report, parse_report

REPORT = {
    "title": "Mira Vale and the Harrow Light",
    "summary": "Mira Vale built the light.",
    "rating": 6.5,
    "rating_explanation": "It guides ships.",
    "findings": [{"summary": "Built in 1871", "explanation": "First paragraph.\n\nSecond."}],
}
READ = Report(
    "Mira Vale and the Harrow Light",
    "Mira Vale built the light.",
    6.5,
    "It guides ships.",
    (Finding("Built in 1871", "First paragraph.\n\nSecond."),),
)
WRITTEN = json.dumps(REPORT)


@pytest.mark.parametrize(
    "reply",
    [
        WRITTEN,
        f"```json\n{json.dumps(REPORT, indent=2)}\n```",
        f"<think>a title {{}}</think>Here is the report:\n{WRITTEN}\nI hope that it helps.",
        WRITTEN[:-1] + ",}",
        WRITTEN.replace("6.5", '"6.5/10"'),
        json.dumps({"report": REPORT}),
        json.dumps([REPORT]),
        WRITTEN.replace('"rating_explanation"', '"Rating Explanation"'),
        WRITTEN[:-3],
    ],
)
def test_a_report_is_read_however_it_is_written(reply: str):
    assert parse_report(reply) == READ


@pytest.mark.parametrize(
    ("rating", "expected"),
    [(11, 10), (-3, 0), ("high", 0), (None, 0), ("7,5", 7.5), (True, 0), ("8 of 10", 8)],
)
def test_a_rating_is_a_number_of_its_scale(rating: object, expected: float):
    report = parse_report(json.dumps({**REPORT, "rating": rating}))
    assert isinstance(report, Report)
    assert report.rating == expected


def test_findings_may_be_missing_or_be_words():
    less = parse_report(
        json.dumps({**REPORT, "findings": ["Built in 1871", {"explanation": "No head."}, {}, 3]})
    )
    assert isinstance(less, Report)
    assert less.findings == (
        Finding("Built in 1871", ""),
        Finding("", "No head."),
        Finding("3", ""),
    )
    none = parse_report(json.dumps({"title": "t", "summary": "s"}))
    assert none == Report("t", "s", 0.0, "", ())


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("", "empty"),
        ("I'm sorry, but I can't help with that.", "refusal"),
        ("The group is about a lighthouse.", "parse"),
        ('{"title": "no summary"}', "parse"),
        ('{"findings": []}', "parse"),
        ("[1, 2]", "parse"),
    ],
)
def test_a_reply_without_a_report_has_a_reason(reply: str, reason: str):
    problem = parse_report(reply)
    assert isinstance(problem, Problem)
    assert problem.reason == reason


@given(
    st.text() | st.lists(st.sampled_from([*WRITTEN.split(" "), "{", "}", "[", '"'])).map(" ".join)
)
def test_no_reply_raises(reply: str):
    parse_report(reply)


@pytest.mark.parametrize(
    ("name", "reports", "others"),
    [("mock_cache.json", 101, 86), ("mock_cache_2024-07_afe8fad4.json", 201, 88)],
)
def test_every_recorded_report_is_read_and_nothing_else_is(name: str, reports: int, others: int):
    """GPT-4o's replies over a novel, where the data sets are on the machine: reports, records of
    graphs, and prose."""
    path = Path(os.environ.get("GRAPHMILL_DATASETS", "")) / "nano_graphrag_llm_cache" / name
    if not path.is_file():
        pytest.skip("no recorded replies; set GRAPHMILL_DATASETS to the folder of datasets")
    replies = [entry["return"] for entry in json.loads(path.read_text(encoding="utf-8")).values()]
    parsed = [parse_report(reply) for reply in replies]
    read = [
        (json.loads(reply), one)
        for reply, one in zip(replies, parsed, strict=True)
        if isinstance(one, Report)
    ]
    assert len(read) == reports
    assert [one.reason for one in parsed if isinstance(one, Problem)] == ["parse"] * others
    for said, report in read:
        assert report.title == said["title"]
        assert report.rating == said["rating"]
        assert [len(report.findings), report.rating_explanation] == [
            len(said["findings"]),
            said["rating_explanation"],
        ]


WHOLE = json.dumps(
    {
        "title": "Light",
        "summary": 'A "bright" {one}.',
        "rating": 5,
        "findings": [{"summary": "It burns"}],
    }
)


@pytest.mark.parametrize("end", [30, 45, 70, len(WHOLE) - 6])
def test_a_report_that_breaks_off_is_none_whatever_the_endpoint_says(end: int):
    for reply in (WHOLE[:end], f"```json\n{WHOLE[:end]}", f"Here it is: {WHOLE[:end]}\n```"):
        told = parse_report(reply)
        assert isinstance(told, Problem)
        assert told.reason in ("truncated", "parse")


@pytest.mark.parametrize(
    "reply", [WHOLE, f"```json\n{WHOLE}\n```\nThat is {{all}}.", WHOLE.replace('\\"', '"')]
)
def test_a_whole_report_does_not_break_off(reply: str):
    assert isinstance(parse_report(reply), Report)
