"""Check whether an endpoint has cut a prompt without a word, by the tokens that it reports.

Some servers count only the tokens that their prefix cache did not hold. The instructions stand at
the start of a prompt and are the same for all rows, so such a server counts little more than the
text at the end. The count is therefore compared with the tokens of the text alone, never with those
of the whole prompt.

A prompt is cut to a window. A text that is much longer than the window is found, because the
endpoint counts far fewer tokens than the text has. A short text may lose tokens too, but then the
count may also be the work of a prefix cache. The two cannot be told apart, so short texts are left
alone.
"""

LEAST_SHARE_READ = 0.7
"""Share of a text's tokens below which it was cut. Tokenizers differ by a factor of up to about 1.3
on the same text (see ``ESTIMATE_MARGIN``), so none counts less than 0.77 of the tokens that another
one counts. A long text is still taken for cut by mistake if a prefix cache holds more than 30 % of
it, such as the first page of a form that many documents share."""
MOST_TOKENS_UNREAD = 200
"""A text that lacks no more tokens than this is not taken for cut: in short texts tokenizers differ
by a larger share, and texts may begin with a few sentences that the prefix cache holds."""
LEAST_TOKENS_OF_A_WINDOW = 256
"""A smaller count is the work of a prefix cache. Servers have windows of 512 tokens or more, and a
cut prompt fills at least half of its window. A prefix cache holds nearly the whole prompt where the
same text is sent once more, or its first half after the whole."""
BYTES_OF_A_TOKEN = 5
"""Texts take fewer bytes for each token in nearly every language. A text that is short for the
reported count was read, so its tokens need not be counted. Counting takes most of the time of a
look into the cache."""


def tokens_of_cut_text(text: str, reported: int) -> int | None:
    """Return the tokens of a text that the endpoint has cut, or None if it was not cut.

    ``reported``: the prompt's tokens as the endpoint counts them. Zero says nothing: some endpoints
    report no count.
    """
    if reported < LEAST_TOKENS_OF_A_WINDOW:
        return None
    if reported * BYTES_OF_A_TOKEN >= len(text.encode(errors="replace")):
        return None
    # tiktoken takes long to import, and most replies need no count.
    from pipeline.text.tokens import DEFAULT_ENCODING, tokenizer

    # The encoding is the same for all models: a run, a plan and a purge must judge a stored reply
    # alike.
    tokens = tokenizer(DEFAULT_ENCODING).count(text)
    is_far_below = reported < LEAST_SHARE_READ * tokens and tokens - reported > MOST_TOKENS_UNREAD
    return tokens if is_far_below else None
