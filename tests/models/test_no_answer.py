"""Limits in the refusals of long prompts, in the words of servers and providers."""

import pytest

from pipeline.errors import PromptTooLongError
from pipeline.models.no_answer import ADVICE, StatedLimits, limits_in, no_answer


@pytest.mark.parametrize(
    ("refusal", "window", "prompt"),
    [
        ("request (22561 tokens) exceeds the available context size (8192 tokens), try increasing it", 8192, 22561),  # noqa: E501
        ("the request exceeds the available context size (n_ctx: 8192, n_prompt_tokens: 22561)",
            8192, 22561),
        (
            "This model's maximum context length is 16384 tokens. However, you requested 122946 tokens "  # noqa: E501
            "(112946 in the messages, 10000 in the completion).",
            16384, 112946,
        ),
        ("maximum context length is 8192 tokens. However, your messages resulted in 8227 tokens.",
            8192, 8227),
        ("This model's maximum context length is 8192 tokens, however you requested 9000 tokens.",
            8192, 9000),
        (
            "'max_tokens' is too large: 2000. This model's maximum context length is 4096 tokens and your request has "  # noqa: E501
            "3000 input tokens (2000 > 4096 - 3000).",
            4096, 3000,
        ),
        ("prompt is too long: 213462 tokens > 200000 maximum", 200000, 213462),
        ("The input token count (1196265) exceeds the maximum number of tokens allowed (1048575)",
            1048575, 1196265),
        ("This model's maximum prompt length is 131072 but the request contains 537812 tokens",
            131072, 537812),
        ("Prompt has 256,468 tokens, but the configured context size is 256,000 tokens", 256000,
            256468),
        ("`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 4000 `inputs` tokens", 4096,
            4000),
        ("Prompt contains 40000 tokens, too large for model with 32768 maximum context length",
            32768, 40000),
        ("The decoder prompt (length 5000) is longer than the maximum model length of 4096.", 4096,
            5000),
        ("the model is loaded with context length of only 4096 tokens", 4096, None),
        ("the input length exceeds the context length", None, None),
        ("Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 40000.",
            None, None),
    ],
)  # fmt: skip
def test_a_refusal_names_the_window_and_the_prompt(
    refusal: str, window: int | None, prompt: int | None
):
    assert limits_in(refusal) == StatedLimits(window, prompt)


def test_a_window_is_counted_as_the_refused_prompt_was():
    assert StatedLimits(8000, 20_000).window_in_our_tokens(16_000) == 6400
    assert StatedLimits(8000, 20_000).window_in_our_tokens(None) == 8000
    assert (
        StatedLimits(8000, 200_000).window_in_our_tokens(16_000) == 8000
    )  # not the prompt's length
    assert StatedLimits(None, 20_000).window_in_our_tokens(16_000) is None


@pytest.mark.parametrize("reason", ["bad_request", "content_filter", "refusal", "empty", "expired"])
def test_a_call_that_must_fail_again_is_not_advised(reason: str):
    assert "again" not in str(no_answer("models.chat.default: no", reason)).partition("; ")[2]


def test_a_prompt_that_is_too_long_says_what_to_lower():
    error = no_answer("models.chat.default: no", "too_long", 9000)
    assert isinstance(error, PromptTooLongError)
    assert error.sent == 9000
    assert "lower query.max_total_tokens; 'graphmill doctor' measures" in str(error)
    assert "ask again" in ADVICE["timeout"]
