import regex
from hypothesis import given
from hypothesis import strategies as st

from pipeline.text.pieces import cut_into_pieces, find_fitting_end

CLUSTERS = st.sampled_from(["👩‍💻", "🇩🇪", "é", "নি", "a", "word ", "，", "\r\n", "한"])


@given(st.lists(CLUSTERS, max_size=60).map("".join), st.integers(6, 12))
def test_a_piece_ends_between_clusters_if_each_of_them_fits(text: str, size: int) -> None:
    ends = {found.end() for found in regex.finditer(r"\X", text)}
    pieces = cut_into_pieces(text, size, len)
    assert [piece.start for piece in pieces[1:]] == [piece.end for piece in pieces[:-1]]
    assert all(piece.n_tokens <= size for piece in pieces)
    assert {piece.end for piece in pieces} <= ends


def test_a_cluster_with_too_many_tokens_is_split() -> None:
    assert find_fitting_end("👩‍💻!", 0, 4, 2, len) == 2
