import pytest

from pipeline.documents.titles import Title, title_of


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("```bash\n# install the tool\n```\n\n## Deploy\n", Title("Deploy", "heading")),
        ("~~~~\n# a\n~~~\n# b\n~~~~\n# Real #\n", Title("Real", "heading")),
        ("````md\n```\n# a\n```\n````\n# Real\n", Title("Real", "heading")),
        ("    # indented code\n\nWords.\n", Title("# indented code".lstrip("# "), "first_line")),
        ("``` never closed\n# a comment\n", Title("``` never closed", "first_line")),
        ("Words first.\n\n  # Real\n", Title("Real", "heading")),
        ("# #\n# Real\n", Title("Real", "heading")),
        (
            f"# Real{' ' * 10**6}x\n",
            Title("Real", "first_line"),
        ),  # an hour, if its end is sought from each blank
        ("#hashtag\n", Title("hashtag", "first_line")),
        ("# " + "long " * 50 + "\n", Title("name", "file_name")),
        ("---\n\n***\nCONFIDENTIAL\n", Title("CONFIDENTIAL", "first_line")),
        ("---\n", Title("name", "file_name")),
    ],
)
def test_the_first_heading_outside_of_code_is_preferred_to_the_first_line(text: str, title: Title):
    assert title_of(text, "name", headings=True) == title


def test_a_given_title_is_preferred_to_a_heading():
    assert title_of("# Heading", "name", given="Given", headings=True) == Title("Given", "given")
    assert title_of("# Heading", "name", headings=False) == Title("Heading", "first_line")


def test_an_order_of_ones_own_decides_which_title_is_the_best():
    text, order = "# Heading\n\nWords.", ("file_name", "heading", "given")
    assert title_of(text, "Ann Moor", given="Given", headings=True, order=order) == Title(
        "Ann Moor", "file_name"
    )
    assert title_of(text, "doc-3", given="Given", headings=True, order=order).text == "Heading"
    assert title_of("Words.", "doc-3", headings=True, order=order) == Title("doc-3", "file_name")


def test_a_file_name_that_looks_like_a_name_is_preferred_to_the_first_line_only():
    line, heading = "- Works at the Foundry.\n", "Words.\n\n# Heading\n"
    assert title_of(line, "Ann Moor", headings=True) == Title("Ann Moor", "file_name")
    assert title_of(line, "doc-3", headings=True).found == "first_line"
    assert title_of(heading, "Ann Moor", headings=True) == Title("Heading", "heading")
    assert title_of(line, "Ann Moor", given="Given", headings=True) == Title("Given", "given")
