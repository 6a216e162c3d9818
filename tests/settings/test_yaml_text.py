import pytest
import yaml

from pipeline.settings.validation import RepeatedKeyError, not_yaml, parse_yaml


def test_only_true_and_false_are_truth_values():
    text = "{on: [yes, no, off, Y, NO], is: [true, False, TRUE], =: x, y: 1}"
    assert parse_yaml(text) == {
        "on": ["yes", "no", "off", "Y", "NO"], "is": [True, False, True], "=": "x", "y": 1,
    }  # fmt: skip


def test_numbers_dates_and_blocks_are_read_as_by_yaml():
    text = "a: 1\nb: 1.5\nc: null\nd: 2020-01-31\ne: |\n  text\nf:\n"
    assert parse_yaml(text) == yaml.safe_load(text)


@pytest.mark.parametrize("text", ["a: [", "!!python/object:os.system {}", "a: 1\n---\nb: 1\n"])
def test_malformed_text_and_tags_of_python_objects_are_refused(text: str):
    with pytest.raises(yaml.YAMLError):
        parse_yaml(text)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: 1\nb: 2\na: 3\n", "line 3: a: the key is there twice; keep one of them"),
        ("a:\n  - b: {c: 1, c: 1}\n", "line 2: a.b.c: the key is there twice; keep one of them"),
        ("b: {c: 1}\nb: {d: 1, d: 2}\n", "line 2: b: the key is there twice; keep one of them"),
        ('"a": 1\na: 1\n', "line 2: a: the key is there twice; keep one of them"),
    ],
)
def test_a_key_that_is_there_twice_is_refused_with_its_line(text: str, told: str):
    with pytest.raises(RepeatedKeyError) as raised:
        parse_yaml(text)
    assert not_yaml(raised.value) == told


def test_merged_and_aliased_mappings_repeat_no_key():
    text = "x: &x {a: 1}\ny: &y {<<: *x, a: 2}\nz: {<<: *x, <<: *y, b: 3}\nw: [*x, *x]\n"
    assert parse_yaml(text) == yaml.safe_load(text)
    assert parse_yaml("# comments alone\n") is None
