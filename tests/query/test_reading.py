"""Excerpts of passages, as the page shows them."""

from pipeline.query.reading import SNIPPET, snippet


def test_an_excerpt_begins_and_ends_between_words():
    text = f"{'before ' * 60}the Skarrow Light {'after ' * 200}"
    pieces = snippet(text, "skarrow")
    assert ("Skarrow", True) in pieces
    shown = "".join(piece for piece, _ in pieces)
    assert shown.startswith("… before")
    assert shown.endswith("after …")


def test_an_excerpt_without_spaces_holds_the_word_that_is_asked_for():
    text = f"{'。' * 3 * SNIPPET}Skarrow{'。' * 3 * SNIPPET}"
    assert ("Skarrow", True) in snippet(text, "skarrow")
