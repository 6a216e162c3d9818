from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.contract.prompts import Prompt, read_prompt
from pipeline.errors import SettingsError

PROMPTS = Path(__file__).parents[2] / "prompts"
TRICKY = '{braces} {0} {{}} %s %(x)d $y ${z} $$ \\n \\g<0> "quotes"'


@given(st.text())
def test_a_value_comes_through_unchanged(value: str):
    assert (
        Prompt("p", "<$text>$language", {"language": value}).render(text=value)
        == f"<{value}>{value}"
    )


def test_placeholders_within_a_value_are_not_expanded():
    assert Prompt("p", "Text: $text\n").render(text=TRICKY) == f"Text: {TRICKY}\n"


def test_braces_and_doubled_dollars_of_the_template_are_text():
    prompt = Prompt("p", 'Reply {"a": 1} for $$5 about ${topic}s')
    assert prompt.fields == {"topic"}
    assert prompt.render(topic="cat") == 'Reply {"a": 1} for $5 about cats'


def test_a_given_value_wins_over_a_bound_one():
    assert Prompt("p", "$language", {"language": "English"}).render(language="Dutch") == "Dutch"


def test_a_placeholder_without_a_value_is_named():
    with pytest.raises(
        SettingsError, match=r"prompt 'p': placeholder 'topic' has no value; known here: text"
    ):
        Prompt("p", "$topic $text").render(text="x")


def test_a_prompt_file_is_read_with_its_values_bound(tmp_path: Path):
    (tmp_path / "greet.md").write_text("\nHello $name in $language\n\n", encoding="utf-8")
    prompt = read_prompt(tmp_path, "greet", {"language": "English"})
    assert prompt.render(name="Ann") == "Hello Ann in English\n"


def test_a_missing_prompt_names_those_there_are(tmp_path: Path):
    (tmp_path / "greet.md").write_text("x")
    with pytest.raises(SettingsError, match=r"gret\.md: no such prompt; have: greet"):
        read_prompt(tmp_path, "gret", {})


@pytest.mark.parametrize(
    "content", [b"costs $5", b"open ${brace", b"end $", "caf\u00e9".encode("latin-1")]
)
def test_a_malformed_prompt_is_refused_when_it_is_read(tmp_path: Path, content: bytes):
    (tmp_path / "bad.md").write_bytes(content)
    with pytest.raises(SettingsError, match=r"bad\.md: "):
        read_prompt(tmp_path, "bad", {})


def test_the_fingerprint_is_the_text_as_it_will_be_sent():
    english = Prompt("p", "$text in $language", {"language": "English"})
    assert english.fingerprint() == Prompt("p", "$text in English").fingerprint()
    assert (
        english.fingerprint()
        != Prompt("p", "$text in $language", {"language": "Dutch"}).fingerprint()
    )
    assert (
        Prompt("p", "$text", {"language": "a"}).fingerprint()
        == Prompt("p", "$text", {}).fingerprint()
    )


def test_a_dollar_sign_that_becomes_a_placeholder_changes_the_fingerprint():
    assert Prompt("p", "$$text").fingerprint() != Prompt("p", "$text").fingerprint()


@pytest.mark.parametrize("path", sorted(PROMPTS.glob("*.md")), ids=lambda path: path.stem)
def test_every_prompt_that_is_delivered_can_be_read(path: Path):
    prompt = read_prompt(PROMPTS, path.stem, {})
    assert prompt.render(**dict.fromkeys(prompt.fields, "x"))
