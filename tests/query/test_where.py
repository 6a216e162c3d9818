import pytest

from pipeline.contract.conditions import list_orders_of_texts, operators
from pipeline.errors import UsageError
from pipeline.query.condition_lines import read_conditions
from pipeline.query.request import build_request
from pipeline.settings.query_options import QuerySettings
from tests.query.memory_stores import question


@pytest.mark.parametrize(
    ("line", "condition"),
    [
        ("year=2020", {"year": {"=": "2020"}}),
        ("year >= 2020", {"year": {">=": "2020"}}),
        ("date<2024-01-31", {"date": {"<": "2024-01-31"}}),
        ("language=[en, de]", {"language": {"in": ["en", "de"]}}),
        ("language!=[en]", {"language": {"not in": ["en"]}}),
        ("source matches letters/*", {"source": {"matches": "letters/*"}}),
        ("title=a=b", {"title": {"=": "a=b"}}),
        ("note=[open", {"note": {"=": "[open"}}),
        ("note=", {"note": {"=": ""}}),
        ("language in de", {"language": {"in": ["de"]}}),
        ("language in de,en", {"language": {"in": ["de", "en"]}}),
        ("language not  in [de, en]", {"language": {"not in": ["de", "en"]}}),
        ("language not in de , en", {"language": {"not in": ["de", "en"]}}),
        ("entity.state in ['a=b', c]", {"entity.state": {"in": ["a=b", "c"]}}),
        ("language exists", {"language": {"exists": True}}),
        (" language exists true", {"language": {"exists": True}}),
        ("language exists false ", {"language": {"exists": False}}),
        ("title=a in b", {"title": {"=": "a in b"}}),
        ("title=Salt and pepper", {"title": {"=": "Salt and pepper"}}),
        ("title=that exists", {"title": {"=": "that exists"}}),
        ("title matches * exists", {"title": {"matches": "* exists"}}),
        ("index=1", {"index": {"=": "1"}}),
        ("due date<2020-01-01", {"due date": {"<": "2020-01-01"}}),
        ("title=['=x']", {"title": {"in": ["=x"]}}),
    ],
)
def test_a_condition_is_read_from_a_line(line: str, condition: dict[str, object]):
    assert read_conditions([line]) == condition
    assert question(where=read_conditions([line])).where == condition


def test_several_conditions_must_all_hold():
    assert read_conditions(["year>=2019", "year<2021"]) == {"year": {">=": "2019", "<": "2021"}}


@pytest.mark.parametrize("lines", [["year"], [""], ["=x"], ["year=1", "year=2"]])
def test_a_line_that_is_no_condition_is_refused(lines: list[str]):
    with pytest.raises(UsageError, match="--where"):
        read_conditions(lines)


@pytest.mark.parametrize(
    ("line", "fact"),
    [
        ("language exists=false", "'exists' and another operator"),
        ("language exists yes", "exists takes true or false"),
        ("language not exists", "'not' and another operator"),
        ("language in=de", "'in' and another operator"),
        ("language not=de", "'not' and another operator"),
        ("language in", "no value after 'in'"),
        ("language in de,,en", "an empty value between commas"),
        ("made in house=x", "'in' and another operator"),
        ("year==2020", "two operators"),
        ("year=>2020", "two operators"),
        ("year<>2020", "two operators"),
        ("year>=", "no value after '>='"),
        ("title matches", "no value after 'matches'"),
        ("year>=2020 and language=de", "two conditions; give each its own --where"),
        ("year>=2020, language=de", "two conditions; give each its own --where"),
        ("exists", "no condition"),
    ],
)
def test_a_malformed_condition_is_refused_with_its_place_and_a_cure(line: str, fact: str):
    with pytest.raises(UsageError) as raised:
        read_conditions([line])
    assert str(raised.value).startswith(f"--where '{line}': ")
    assert fact in str(raised.value)
    assert "write" in str(raised.value)


@pytest.mark.parametrize(
    "where", [{"a\0": 1}, {"a": "b\0"}, {"a": {"in": ["\ud800"]}}, {"a": {"matches": "\0*"}}]
)
def test_a_character_that_no_document_has_is_refused(where: dict[str, object]):
    with pytest.raises(UsageError, match="is in no document"):
        build_request("Who?", QuerySettings(), {"where": where})


@pytest.mark.parametrize("operator", ["<", "<=", ">", ">="])
@pytest.mark.parametrize("value", ["banana", "", "2024-13", "12:30", True])
def test_a_value_that_is_no_date_is_refused_where_dates_are_ordered(operator: str, value: object):
    with pytest.raises(
        UsageError, match=rf"'date' {operator} .*: no date; write one as 2024-05-31"
    ):
        build_request("Who?", QuerySettings(), {"where": {"date": {operator: value}}})


@pytest.mark.parametrize(
    "where",
    [
        {"date": {">=": "2024-05-01"}},
        {"date": {">=": "May 2024"}},
        {"date": {">=": 2024}},
        # A time of day, a number and words are compared with the date in metadata.
        {"date": {"<": "2024-05-01T12:00:00"}},
        {"date": {"<": 1714521600}},
        {"date": "unknown"},
        {"date": {"!=": "unknown"}},
        {"date": ["2024", "unknown"]},
        {"date": {"matches": "20*"}},
        # A key of other metadata may have texts and numbers.
        {"grade": {">=": "B"}},
        {"title": {">=": "M"}},
    ],
)
def test_other_values_go_on_to_be_compared(where: dict[str, object]):
    assert build_request("Who?", QuerySettings(), {"where": where}).where


@pytest.mark.parametrize(
    ("where", "noted"),
    [
        ({"year": {">=": "banana"}}, ["'year' >= banana"]),
        ({"year": {">=": "banana", "<": "apple"}}, ["'year' >= banana", "'year' < apple"]),
        ({"year": {">=": "2020"}}, []),
        ({"reviewed": {">=": "2020-05-01"}}, []),
        ({"year": "banana", "title": {">": "banana"}, "date": {">": "banana"}}, []),
        ({"entity.height": {">": "banana"}}, []),
    ],
)
def test_an_order_of_texts_is_known(where: dict[str, object], noted: list[str]):
    conditions = {field: operators(field, wanted) for field, wanted in where.items()}
    assert list_orders_of_texts(conditions) == noted


@pytest.mark.parametrize(
    ("options", "limit"),
    [
        ({"where": {f"field{n}": 1 for n in range(101)}}, "a request may have 100"),
        ({"where": {"a": list(range(1001))}}, "a request may have 1,000"),
        ({"where": {"a": list(range(600)), "b": list(range(600))}}, "a request may have 1,000"),
        ({"where": {"a": "x" * 1001}}, "a value may have 1,000"),
        ({"where": {"x" * 1001: "a"}}, "a value may have 1,000"),
        ({"where": {"a": {"matches": "*a" * 51}}}, "a pattern may have 50"),
        ({"hl_keywords": ["x"] * 101}, "hl_keywords"),
        ({"ll_keywords": ["x" * 1001]}, "ll_keywords"),
        (
            {"conversation_history": [{"role": "user", "content": "x"}] * 501},
            "conversation_history",
        ),
        (
            {"conversation_history": [{"role": "user", "content": "x" * 100_001}]},
            "conversation_history",
        ),
    ],
)
def test_a_request_above_a_limit_is_refused(options: dict[str, object], limit: str):
    with pytest.raises(UsageError, match=limit):
        build_request("Who?", QuerySettings(), options)


def test_a_request_at_the_limits_is_taken():
    where = {
        "a": ["x" * 1000] * 900,
        **{f"field{n}": 1 for n in range(98)},
        "c": {"matches": "*a" * 50},
    }
    assert (
        len(
            build_request(
                "Who?", QuerySettings(), {"where": where, "hl_keywords": ["x"] * 100}
            ).where
        )
        == 100
    )


def test_a_list_of_aliases_is_a_text_and_is_never_written_out():
    """Each level is ten times the one before: written out, the list has 10^12 values."""
    levels = [f"&a{level} [{', '.join([f'*a{level - 1}'] * 10)}]" for level in range(1, 13)]
    huge = f"[&a0 [x], {', '.join(levels)}]"
    assert read_conditions([f"f={huge}"]) == {"f": {"=": huge}}
    assert read_conditions(["f=&a [*a]"]) == {"f": {"=": "&a [*a]"}}


@pytest.mark.parametrize("text", ["[2020-13-45]", "[" + "9" * 5000 + "]", "[" * 900 + "]" * 900])
def test_a_list_that_yaml_cannot_hold_is_a_text(text: str):
    assert read_conditions([f"f={text}"]) == {"f": {"=": text}}
