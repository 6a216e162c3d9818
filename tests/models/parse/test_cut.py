"""Detection of replies that end too early, wherever the cut is."""

import json
import time

import pytest

from pipeline.models.parse.graph import parse_claims, parse_graph_json, parse_records
from pipeline.models.parse.lenient_json import ending_of
from pipeline.models.parse.report import parse_report

IVO = '("entity"<|>Ivo Brand<|>person<|>The miller (of Tarn) came.)'
RUNS = '("relationship"<|>Ivo Brand<|>Orla Mill<|>Ivo ran it in 1921 (or so)<|>work<|>8)'
RECORDS = f"{IVO}##\n{RUNS}##\n{IVO.replace('Ivo', 'Ada')}<|COMPLETE|>"
GRAPH = json.dumps({
    "entities": [{"name": "Ivo", "type": "person", "description": "He said \"no\"."},
        {"name": "Ada", "type": "x"}],
    "relationships": [{"source": "Ivo", "target": "Ada", "keywords": ["a", "b"], "strength": 5}],
})  # fmt: skip


def test_json_is_cut_at_every_place_but_its_end_and_gives_whole_records_alone():
    whole = parse_graph_json(GRAPH).records
    begins = GRAPH.index('"Ivo"')
    for end in range(begins, len(GRAPH)):
        parsed = parse_graph_json(GRAPH[:end])
        assert parsed.cut, GRAPH[:end]
        assert set(parsed.records) <= set(whole), GRAPH[:end]
    assert not parse_graph_json(GRAPH).cut


@pytest.mark.parametrize(
    "reply",
    ["{'entities': [{'name': 'Ada'}]} Done.", '{"entities": [{"name": "A "b" c"}]}', "prose", ""],
)
def test_json_that_is_only_malformed_is_not_cut(reply: str):
    assert not parse_graph_json(reply).cut


@pytest.mark.parametrize("parse", [ending_of, parse_report])
@pytest.mark.parametrize("end", ["", "\\"])
def test_time_is_linear_in_the_escaped_quotes_of_a_text_without_end(parse, end: str):
    seconds = {}
    for size in (2_000, 16_000):
        reply = '{"summary": "s", "entities": [{"name": "' + '\\"' * size + end
        start = time.process_time()
        parse(reply)
        seconds[size] = time.process_time() - start
    assert seconds[16_000] < max(30 * seconds[2_000], 0.5)


def test_records_are_cut_wherever_the_reply_ends_inside_one():
    second, third = RECORDS.index(RUNS), RECORDS.index("Ada") - len('("entity"<|>')
    inside = [
        *range(second + 1, second + len(RUNS) - len("8)")),
        *range(third + 1, third + len('("entity"<|>Ada Brand<|>p')),
    ]
    for end in inside:
        assert parse_records(RECORDS[:end]).cut, RECORDS[:end]


@pytest.mark.parametrize("end", ["", "<|COMPL", "<|", "##", "#", "##\n"])
def test_whole_records_with_a_part_of_what_stands_between_or_after_them_are_not_cut(end: str):
    parsed = parse_records(f"{IVO}##\n{RUNS}{end}")
    assert (parsed.cut, parsed.complete, len(parsed.records)) == (False, False, 2)


def test_a_claim_is_cut_as_other_records_are():
    claim = (
        '("claim"<|>Otto<|>NONE<|>BRIBERY<|>TRUE<|>NONE<|>NONE<|>Otto was bribed.<|>Otto was'
        " bribed.)"
    )
    assert not parse_claims(claim).cut
    assert parse_claims(f'{claim}##\n("claim"<|>Otto<|>NO').cut


@pytest.mark.parametrize(
    "start", ["", "<|COMPLETE|>", '("entity"<|>Ivo<|>person<|>He <|COMPLETE|> wrote.)##']
)
def test_an_end_mark_before_the_last_record_does_not_hide_a_cut(start: str):
    whole = '("entity"<|>Ada<|>person<|>She taught.)##'
    parsed = parse_records(f'{start}{whole}("entity"<|>Udo<|>per')
    assert (parsed.cut, parsed.complete) == (True, False)
    assert "Udo" not in {entity.name for entity in parsed.entities}
