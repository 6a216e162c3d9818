"""Parsing of replies as models really write them."""

# ruff: noqa: E501 (a reply stands on one line)

import json
import os
import random
import re
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.models.parse.graph import (
    Entity,
    ParsedReply,
    Relationship,
    parse_graph_json,
    parse_keywords,
    parse_records,
    unreadable,
)

MILL = Entity("Orla Mill", "ORGANIZATION", "A mill on the Tarn.")
IVO = Entity("Ivo Brand", "PERSON", "The miller.")
RUNS = Relationship("Ivo Brand", "Orla Mill", "Ivo runs the mill.", ("work", "ownership"), 8.0)
PLAIN_RUNS = Relationship("Ivo Brand", "Orla Mill", "Ivo runs the mill.", (), 8.0)

RECORDS = {
    "as asked": (
        '("entity"<|>Ivo Brand<|>person<|>The miller.)##\n("entity"<|>Orla Mill<|>organization<|>A mill on the Tarn.)'
        '##\n("relationship"<|>Ivo Brand<|>Orla Mill<|>Ivo runs the mill.<|>work, ownership<|>8)<|COMPLETE|>',
        [IVO, MILL, RUNS],
        [],
    ),
    "every field quoted, five fields": (
        '("entity"<|>"Ivo Brand"<|>"person"<|>"The miller.")##\n'
        '("relationship"<|>"Ivo Brand"<|>"Orla Mill"<|>"Ivo runs the mill."<|>8)##\n<|COMPLETE|>',
        [IVO, PLAIN_RUNS],
        [],
    ),
    "no parentheses, newlines for separators": (
        "entity<|>Ivo Brand<|>person<|>The miller.\nrelationship<|>Ivo Brand<|>Orla Mill<|>Ivo runs the mill."
        "<|>work, ownership<|>8\nThat is all I found.",
        [IVO, RUNS],
        [],
    ),
    "separated by comma and parentheses, extra parentheses": (
        '(("entity"<|>Ivo Brand<|>person<|>The miller.)),("entity"<|>Orla Mill<|>organization<|>A mill on the Tarn.))',
        [IVO, MILL],
        [],
    ),
    "missing closing parentheses": (
        '("entity"<|>"Ivo Brand"<|>"person"<|>"The miller."##\n("entity"<|>"Orla Mill"<|>"organization"<|>"A mill on the Tarn."',
        [IVO, MILL],
        [],
    ),
    "fenced": (
        '```text\n("entity"<|>"Ivo Brand"<|>"person"<|>"The miller.")<|COMPLETE|>\n```\n',
        [IVO],
        [],
    ),
    "thinking before": (
        '<think>Maybe ("entity"<|>"Draft"<|>"person"<|>"No.")</think>\n("entity"<|>"Ivo Brand"<|>"person"<|>"The miller.")',
        [IVO],
        [],
    ),
    "thinking whose start is missing": (
        'Perhaps ("entity"<|>"Draft"<|>"person"<|>"No.")\n</think>\n("entity"<|>"Ivo Brand"<|>"person"<|>"The miller.")',
        [IVO],
        [],
    ),
    "thinking that never ends": (
        '<think>I should list them.\n("entity"<|>"Ivo Brand"<|>"person"<|>"The miller.")<|COMPLETE|>',
        [IVO],
        [],
    ),
    "wrong case": (
        '("ENTITY"<|>Ivo Brand<|>PERSON<|>The miller.)##("Relation"<|>Ivo Brand<|>Orla Mill<|>Ivo runs the mill.<|>8)<|complete|>',
        [IVO, PLAIN_RUNS],
        [],
    ),
    "headings and numbers": (
        '**Entities:**\n\n1. ("entity"<|>"Ivo Brand"<|>"person"<|>"The miller.")\n2. ("entity"<|>"Orla Mill"<|>'
        '"organization"<|>"A mill on the Tarn.")\n\n**Relationships:**\n\n1. ("relationship"<|>"Ivo Brand"<|>"Orla Mill"'
        '<|>"Ivo runs the mill."<|>8)\n\n**<|COMPLETE|>**',
        [IVO, MILL, PLAIN_RUNS],
        [],
    ),
    "delimiters damaged in many ways": (
        '("entity"<||>"Ivo Brand"<|#|>"person"< | >"The miller.")##\n("entity"<|"Orla Mill"|>"organization"<>'
        '"A mill on the Tarn.")##\n("relationship"</|>"Ivo Brand"＜｜＞"Orla Mill"<|>"Ivo runs the mill."</|>8)',
        [IVO, MILL, PLAIN_RUNS],
        [],
    ),
    "bars and commas for delimiters": (
        '("entity"|"Ivo Brand"|"person"|"The miller.")\n("entity", "Orla Mill", "organization", "A mill on the Tarn.")',
        [IVO, MILL],
        [],
    ),
    "bars that lost their points, line ends spelled out": (
        '("entity"|#|>"Ivo Brand"|#|>"person"|#|>"The miller.")\\n("entity"<|#"Orla Mill"<|#"organization"<|#'
        '"A mill on the Tarn.")',
        [IVO, MILL],
        [],
    ),
    "full-width punctuation": (
        "（“entity”<|>“Ivo Brand”<|>“person”<|>“The miller.”）＃＃\n"
        "（“relationship”<|>“Ivo Brand”<|>“Orla Mill”<|>“Ivo runs the mill.”<|>8）",
        [IVO, PLAIN_RUNS],
        [],
    ),
    "html and escaped quotes": (
        "(&quot;entity&quot;&lt;|&gt;&quot;Ivo Brand&quot;&lt;|&gt;person&lt;|&gt;The miller.)##"
        '(\\"entity\\"<|>\\"Brand &amp; Sons\\"<|>\\"organization\\"<|>\\"They say \\"grist\\" there.\\")',
        [IVO, Entity("Brand & Sons", "ORGANIZATION", 'They say "grist" there.')],
        [],
    ),
    "cut off in the last record": (
        '("entity"<|>"Ivo Brand"<|>"person"<|>"The miller.")##\n("entity"<|>"Orla Mill"<|>"organization"<|>"A mill on',
        [IVO],
        ["truncated"],
    ),
    "cut off before the last record has its fields": (
        '("entity"<|>"Ivo Brand"<|>"person"<|>"The miller.")##\n("relationship"<|>"Ivo Brand"<|>"Or',
        [IVO],
        ["truncated"],
    ),
    "keywords of the whole text": (
        '("entity"<|>Ivo Brand<|>person<|>The miller.)##\n("content_keywords"<|>"milling, rivers")<|COMPLETE|>',
        [IVO],
        [],
    ),
    "no strength": (
        '("relationship"<|>Ivo Brand<|>Orla Mill<|>Ivo runs the mill.<|>work, ownership)##'
        '("relationship"<|>Ivo Brand<|>Orla Mill<|>Ivo runs the mill.)<|COMPLETE|>',
        [
            Relationship(
                "Ivo Brand", "Orla Mill", "Ivo runs the mill.", ("work", "ownership"), 1.0
            ),
            Relationship("Ivo Brand", "Orla Mill", "Ivo runs the mill.", (), 1.0),
        ],
        [],
    ),
    "strengths in words and beyond the scale": (
        "\n".join(
            f'("relationship"<|>A<|>B<|>text<|>k<|>{strength})'
            for strength in (
                "8/10",
                "strength: 8",
                '"8.5"',
                "4/5",
                "99",
                "-3",
                "NaN",
                "1e999",
                "high",
                "7 (firm)",
            )
        ),
        [
            Relationship("A", "B", "text", ("k",), weight)
            for weight in (8, 8, 8.5, 8, 10, 0.1, 1, 1, 1, 7)
        ],
        [],
    ),
    "strength before the keywords": (
        '("relationship"<|>Ivo Brand<|>Orla Mill<|>Ivo runs the mill.<|>8<|>work, ownership)',
        [RUNS],
        [],
    ),
    "hashes, parentheses and line ends inside a text": (
        '("entity"<|>"C## (draft)"<|>"concept"<|>"Uses ## signs (really)\nand more (twice).")##\n'
        '("relationship"<|>A<|>B<|>"first (one)\nsecond"<|>k<|>3)',
        [
            Entity("C## (draft)", "CONCEPT", "Uses ## signs (really) and more (twice)."),
            Relationship("A", "B", "first (one) second", ("k",), 3.0),
        ],
        [],
    ),
    "names that look like syntax": (
        '("entity"<|>std::vector<><|>concept<|>A <| B is piped.)##("entity"<|>entity<|>"entity"<|>A being.)',
        [
            Entity("std::vector<>", "CONCEPT", "A <| B is piped."),
            Entity("entity", "ENTITY", "A being."),
        ],
        [],
    ),
    "empty names and too few fields": (
        '("entity"<|>""<|>"person"<|>"Nobody.")##("relationship"<|>A<|> <|>text<|>5)##("entity"<|>Solo)##'
        '("entity"<|>Ivo Brand<|>person<|>The miller.)<|COMPLETE|>',
        [IVO],
        ["name", "name", "fields"],
    ),
    "a record of an unknown kind": (
        '("claim"<|>"X"<|>"Y")##\n("entity"<|>"Ivo Brand"<|>"person"<|>"The miller.")##\n("Orla Mill"<|>"organization"<|>'
        '"A mill.")##\n<|COMPLETE|>',
        [IVO],
        ["kind", "kind"],
    ),
    "without a type, without a description": (
        '("entity"<|>Ivo Brand<|>The miller of the whole valley.)##("entity"<|>Orla Mill<|>organization)<|COMPLETE|>',
        [
            Entity("Ivo Brand", "", "The miller of the whole valley."),
            Entity("Orla Mill", "ORGANIZATION", ""),
        ],
        [],
    ),
    "completion too early, then more": (
        '("entity"<|>Ivo Brand<|>person<|>The miller.)<|COMPLETE|>\n("entity"<|>Orla Mill<|>organization<|>A mill on the Tarn.)',
        [IVO, MILL],
        [],
    ),
    "kinds translated": (
        "(“实体”<|>“青石镇”<|>“地点”<|>“一座小镇（北岸）。”)##\n(“关系”<|>“青石镇”<|>“何岸”<|>“何岸住在青石镇。”<|>“居住、家乡”<|>6)",
        [
            Entity("青石镇", "地点", "一座小镇（北岸）。"),
            Relationship("青石镇", "何岸", "何岸住在青石镇。", ("居住", "家乡"), 6.0),
        ],
        [],
    ),
}


@pytest.mark.parametrize("name", RECORDS)
def test_records_are_read_in_the_forms_that_models_write(name):
    reply, records, reasons = RECORDS[name]
    parsed = parse_records(reply)
    assert list(parsed.records) == records
    assert sorted(problem.reason for problem in parsed.problems) == sorted(reasons)


def test_records_keep_their_order_and_are_sorted_by_kind_on_demand():
    parsed = parse_records(RECORDS["as asked"][0])
    assert parsed.records == (IVO, MILL, RUNS)
    assert (parsed.entities, parsed.relationships) == ((IVO, MILL), (RUNS,))
    assert parsed.complete


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("<|COMPLETE|>", None),
        ("No entities here.\n<|COMPLETE|>", None),
        ("<think>nothing</think><|complete|>", None),
        ('("entity"<|>A<|>person<|>B.)', None),
        ("", "empty"),
        (" \n```\n```", "empty"),
        ("I'm sorry, but I can't help with that.", "refusal"),
        ("抱歉，我无法处理这段文字。", "refusal"),
        ("The text is about a mill.", "parse"),
        ('("entity"<|>"")<|COMPLETE|>', "parse"),
    ],
)
def test_a_reply_without_a_record_is_explained(reply, reason):
    problem = unreadable(parse_records(reply), reply)
    assert (problem and problem.reason) == reason


GRAPH = {
    "entities": [
        {"name": "Ivo Brand", "type": "person", "description": "The miller."},
        {"name": "Orla Mill", "type": "organization", "description": "A mill on the Tarn."},
    ],
    "relationships": [
        {
            "source": "Ivo Brand",
            "target": "Orla Mill",
            "description": "Ivo runs the mill.",
            "keywords": ["work", "ownership"],
            "strength": 8,
        }
    ],
}
GRAPH_JSON = json.dumps(GRAPH)


@pytest.mark.parametrize(
    "reply",
    [
        GRAPH_JSON,
        f"```json\n{GRAPH_JSON}\n```",
        f"<think>{{}}</think>Here it is [see below]:\n{GRAPH_JSON}\nDone.",
        GRAPH_JSON.replace('"', "'"),
        GRAPH_JSON[:-1],
        json.dumps([*GRAPH["entities"], *GRAPH["relationships"]]),
        "\n".join(map(json.dumps, [*GRAPH["entities"], *GRAPH["relationships"]])),
        json.dumps(
            {
                "Entities": [{"entity_name": e["name"], "entity_type": e["type"], "Description": e["description"]} for e in GRAPH["entities"]],
                "relations": [
                    {"source_entity": "Ivo Brand", "target_entity": "Orla Mill", "description": "Ivo runs the mill.",
                     "relationship_keywords": "work, ownership", "relationship_strength": "8/10"}
                ],
            }
        ),
    ],
)  # fmt: skip
def test_a_graph_is_read_from_json(reply):
    parsed = parse_graph_json(reply)
    assert parsed.records == (IVO, MILL, RUNS)
    assert parsed.problems == ()


def test_each_unreadable_json_record_is_a_problem():
    reply = '{"entities": [{"name": ""}, {"colour": 3}, 7], "relationships": [{"source": "A"}]}'
    assert [problem.reason for problem in parse_graph_json(reply).problems] == [
        "name",
        "kind",
        "kind",
        "name",
    ]


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ('{"entities": [], "relationships": []}', None),
        ('{"entities": []', None),
        ("{}", "parse"),
        ("nothing", "parse"),
        ("[" * 100_000, "parse"),
        ('{"a":' * 100_000, "parse"),
    ],
)
def test_json_without_a_record_is_explained(reply, reason):
    problem = unreadable(parse_graph_json(reply), reply)
    assert (problem and problem.reason) == reason


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ('{"high_level_keywords": ["Trade"], "low_level_keywords": ["Tarn", "tarn", " "]}', (["Trade"], ["Tarn"], "")),
        ('```json\n{"high_level_keywords": [], "low_level_keywords": []}\n```', ([], [], "")),
        ('<think>{"a": 1}\n</think>Sure: {"high_level_keywords": ["a b"], "low_level_keywords": ["Paris, Texas"],}', (["a b"], ["Paris, Texas"], "")),
        ("<think>Let me see. {'High-Level Keywords': 'x, y'", (["x", "y"], [], "")),
        ('{"low_level_keywords": [1891, null, {"a": 1}]}', ([], ["1891"], "")),
        ('{"high_level_keywords": [], "low_level_keywords": ["Ada"], "question": "Where did Ada\\nstudy?"}', ([], ["Ada"], "Where did Ada study?")),
        ('{"high_level_keywords": [], "low_level_keywords": [], "question": ["a", "b"]}', ([], [], "a, b")),
        ('{"other": 1}', None),
        ("I cannot.", None),
        ("", None),
    ],
)  # fmt: skip
def test_keywords_are_read_from_json(reply, expected):
    assert parse_keywords(reply) == expected


PIECES = ["<|>", "##", "(", ")", '"', "\n", "<|", "|>", "<", ">", "|", "<|COMPLETE|>", "<think>", "</think>", "```",
          '("entity"<|>', '("relationship"<|>', "{", "}", "[", "]", ",", ":", "&quot;", "&#x22;", "\\", "\x00", "\ud800",
          "\x1f", "，", "（", "）", "1", "nan", " ", "é", "𝔸"]  # fmt: skip


def mutations(replies: list[str], count: int, seed: int):
    """Yield deletions, doublings, swaps, insertions, cuts and splices of the replies."""
    chance = random.Random(seed)
    for _ in range(count):
        text = chance.choice(replies)[:3000]
        for _ in range(chance.randint(1, 6)):
            start, end = sorted(chance.randint(0, len(text)) for _ in range(2))
            short = min(end, start + 12)
            text = chance.choice(
                [
                    text[:start] + text[short:],
                    text[:short] + text[start:],
                    text[:start] + text[start:short][::-1] + text[short:],
                    text[:start] + chance.choice(PIECES) + text[start:],
                    text.replace(chance.choice(PIECES), chance.choice(PIECES), 3),
                    text[:end],
                    text[:start] + chance.choice(replies)[start : start + 300],
                ]
            )
        yield text


def assert_sane(parsed: ParsedReply):
    for record in parsed.records:
        names = [record.name] if isinstance(record, Entity) else [record.source, record.target]
        assert all(name and name == name.strip() and "\n" not in name for name in names)
        assert "\n" not in record.description
        if isinstance(record, Relationship):
            assert 0.1 <= record.weight <= 10
    for problem in parsed.problems:
        assert problem.reason in {"kind", "fields", "name", "truncated"}
        assert len(problem.message) < 400


def test_escapes_in_json_bring_no_control_characters():
    reply = '{"entities": [{"name": "A\\ud800\\u0000da", "type": "per\\u0000son", "description": "\\ud800\\u0007b"}, "\\ud800"]}'
    parsed = parse_graph_json(reply)
    assert parsed.entities == (Entity("Ada", "PERSON", "b"),)
    assert "\ud800" not in parsed.problems[0].record_text + parsed.problems[0].message


def assert_nothing_raises(
    replies: list[str], count: int, seed: int, parsers=(parse_records, parse_graph_json)
):
    for reply in mutations(replies, count, seed):
        for parse in parsers:
            parsed = parse(reply)
            assert_sane(parsed)
            unreadable(parsed, reply)


def test_no_mutation_of_a_reply_raises_an_error():
    assert_nothing_raises(
        [reply for reply, _, _ in RECORDS.values()] + [GRAPH_JSON] * 5, 10_000, seed=7
    )


@given(st.text() | st.lists(st.sampled_from(PIECES)).map("".join))
def test_no_text_raises(reply):
    assert_nothing_raises([reply], 1, seed=1)
    parse_keywords(reply)


@pytest.mark.parametrize(
    "piece", ["<|>", "##", ")", "(", '"', "<", "<|", "<think>", '"\n', "&#1", "{", "\\"]
)
def test_parsing_time_grows_linearly_with_the_reply(piece):
    seconds = {}
    for size in (50_000, 400_000):
        reply = '("entity"<|>"A"<|>"b"<|>"' + piece * (size // len(piece))
        start = time.process_time()
        parse_records(reply)
        parse_graph_json(reply)
        seconds[size] = time.process_time() - start
    assert seconds[400_000] < max(30 * seconds[50_000], 0.5)


def recorded_replies() -> list[str]:
    """Return GPT-4o's replies to extraction prompts over a novel, if the data sets are on the
    machine."""
    path = (
        Path(os.environ.get("GRAPHMILL_DATASETS", ""))
        / "nano_graphrag_llm_cache"
        / "mock_cache.json"
    )
    if not path.is_file():
        pytest.skip("no recorded replies; set GRAPHMILL_DATASETS to the folder of datasets")
    replies = (entry["return"] for entry in json.loads(path.read_text(encoding="utf-8")).values())
    return [reply for reply in replies if "<|>" in reply]


def test_recorded_replies_are_read_and_no_mutation_of_them_raises():
    replies = recorded_replies()
    record = re.compile(r"[(][\"“](?:entity|relation|relationship)[\"”]<[|]>")
    expected = [len(record.findall(reply)) for reply in replies]
    read = [len(parse_records(reply).records) for reply in replies]
    assert len(replies) == 84
    assert sum(map(min, read, expected)) >= 0.99 * sum(expected)
    assert_nothing_raises(replies, 10_000, seed=11, parsers=[parse_records])
