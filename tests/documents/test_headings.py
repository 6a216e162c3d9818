"""The headings above a place in a document."""

import pytest

from pipeline.documents.headings import (
    LONGEST_HEADING,
    LONGEST_PATH,
    HeadingPaths,
    find_headings,
    looks_like_markdown,
)


def path_at(text: str, words: str, source: str = "a.md", title: str = "") -> str:
    return HeadingPaths(text, source, title).above(text.index(words))


TEXT = "# Guide\n\nIntro.\n\n## Setup\n\nInstall.\n\n### Linux ###\n\nApt.\n\n## Use\n\nRun it.\n"


@pytest.mark.parametrize(
    ("words", "path"),
    [
        ("Intro", ""),
        ("## Setup", "Setup"),
        ("Install", "Setup"),
        ("Apt", "Setup > Linux"),
        ("Run it", "Use"),
    ],
)
def test_the_path_has_the_headings_at_or_above_the_place_without_the_title(words: str, path: str):
    assert path_at(TEXT, words, title="Guide") == path


def test_a_first_heading_that_is_not_the_title_is_in_the_path():
    assert path_at(TEXT, "Apt", title="Manual") == "Guide > Setup > Linux"


def test_one_pass_answers_for_all_places():
    paths = HeadingPaths(TEXT, "a.md", "Guide")
    assert [paths.above(TEXT.index(words)) for words in ("Intro", "Apt", "Run it")] == [
        "", "Setup > Linux", "Use"
    ]  # fmt: skip


def test_underlined_lines_are_headings_of_level_one_and_two():
    text = "Guide\n=====\n\nSetup\n---\n\nInstall."
    assert list(find_headings(text)) == [(0, 1, "Guide"), (13, 2, "Setup")]


@pytest.mark.parametrize(
    "text",
    [
        "```\n# no\n```\n",
        "~~~ sh\n# no\n```\n# no\n~~~\n",
        "````\n# no\n```\n# no",
        "    # code\n",
        "#hashtag\n",
        "One line.\nAnother one.\n---\n",
        "| a | b |\n---\n",
        "---\n\n---\n",
        "- item\n---\n",
    ],
)
def test_code_rules_and_tables_have_no_headings(text: str):
    assert list(find_headings(text)) == []


def test_marks_in_a_heading_are_left_out():
    text = "## The **bold** [link](http://a.b/c) and `code` {#anchor}\n"
    assert [heading.text for heading in find_headings(text)] == ["The bold link and code"]


def test_an_empty_heading_ends_those_below_it():
    text = "# A\n\n## B\n\nb\n\n##\n\nc\n"
    assert path_at(text, "c") == "A"


@pytest.mark.parametrize(
    ("source", "path"),
    [("a.docx", "B"), ("a.html", "B"), ("a.pdf", ""), ("a.log", ""), ("a.txt", ""), ("b.md#x", "")],
)
def test_the_file_decides_whether_a_single_level_marks_headings(source: str, path: str):
    assert path_at("text\n\n# B\n\nwords", "words", source) == path


def test_a_plain_text_with_two_levels_between_blank_lines_has_headings():
    assert path_at(TEXT, "Apt", "a.txt") == "Guide > Setup > Linux"
    assert not looks_like_markdown("# run it\nls\n\n## and then\ncd\n")
    assert not looks_like_markdown("```\n\n# A\n\n## B\n\n```\n")


def test_headings_and_paths_are_limited_and_the_last_headings_stay():
    levels = "\n\n".join("#" * level + " " + f"{level}" * 300 for level in range(1, 7))
    path = path_at(f"{levels}\n\nend", "end")
    assert len(path) <= LONGEST_PATH
    names = path.split(" > ")
    assert names[-1] == "6" * (LONGEST_HEADING - 1) + "…"
    assert all(len(name) <= LONGEST_HEADING for name in names)
