import pytest
import yaml

from pipeline.settings.validation import parse_yaml


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
