"""Detect prompts that an endpoint cut without saying so, from the token counts that it reports.

Some servers count only the tokens that their prefix cache did not hold. The instructions stand at
the start of a prompt and are the same for all rows. Such a server counts little more than the text
at the end. The count is therefore compared with the tokens of the text alone, never with those of
the whole prompt.

A cut prompt fills the window of the model. A text that is much longer than the window is detected,
because the endpoint counts far fewer tokens than the text has. A short text may lose tokens too,
but a low count may then also result from a prefix cache. The two cases look the same, so short
texts are not judged.
"""

LEAST_SHARE_READ = 0.7
"""Share of a text's tokens below which it was cut. Tokenizers differ by a factor of up to about 1.3
on the same text (see ``ESTIMATE_MARGIN``), so none counts less than 0.77 of another one's tokens. A
long text is reported as cut by mistake if a prefix cache holds more than 30 % of it. The first page
of a form that many documents share is an example."""
MOST_TOKENS_UNREAD = 200
"""A text that lacks no more tokens than this is not reported as cut. Tokenizers differ by a larger
share on short texts. A prefix cache may also hold the first few sentences of a text."""
LEAST_TOKENS_OF_A_WINDOW = 256
"""A smaller count results from a prefix cache. Servers have windows of 512 tokens or more, and a
cut prompt fills at least half of its window. A prefix cache holds nearly the whole prompt if the
same text is sent once more, or if its first half follows the whole."""
BYTES_OF_A_TOKEN = 5
"""Texts take fewer bytes per token in nearly every language. A text that is short for the reported
count was read, so its tokens need not be counted. Counting takes most of the time of a cache
lookup."""


def tokens_of_cut_text(text: str, reported: int) -> int | None:
    """Return the number of tokens of a text that the endpoint has cut, or None if it was not cut.

    ``reported``: the prompt's tokens as the endpoint counts them. Zero means nothing, because some
    endpoints report no count.
    """
    if reported < LEAST_TOKENS_OF_A_WINDOW:
        return None
    if reported * BYTES_OF_A_TOKEN >= len(text.encode(errors="replace")):
        return None
    # tiktoken takes long to import, and most replies need no count.
    from pipeline.text.tokens import DEFAULT_ENCODING, tokenizer

    # The encoding is the same for all models, so that a run, a plan and a purge judge a stored
    # reply in the same way.
    tokens = tokenizer(DEFAULT_ENCODING).count(text)
    is_far_below = reported < LEAST_SHARE_READ * tokens and tokens - reported > MOST_TOKENS_UNREAD
    return tokens if is_far_below else None
