"""Pictures in requests: how they are sent, and about how many tokens an endpoint counts."""

import base64
from collections.abc import Mapping
from math import ceil
from typing import Any

from pipeline.models.base import Picture

LONGEST_SIDE, SHORTER_SIDE, TILE = 2048, 768, 512
"""OpenAI scales a picture down to fit a square of 2048 pixels, and then its shorter side to 768. It
counts the tiles of 512 pixels that cover the result."""
TOKENS_OF_A_PICTURE, TOKENS_OF_A_TILE = 85, 170
"""The figures that OpenAI documents for gpt-4o."""
DEARER_MODEL = "gpt-4o-mini"
TOKENS_OF_A_DEARER_PICTURE, TOKENS_OF_A_DEARER_TILE = 2833, 5667
"""Its figures for gpt-4o-mini, for which a picture costs about as much as for gpt-4o."""


def message_with_picture(message: Mapping[str, Any], picture: Picture) -> dict[str, Any]:
    """Return the message with the picture behind its text, in the form of the OpenAI protocol.

    Raises PictureChangedError if the file has another content now.
    """
    url = f"data:{picture.media_type};base64,{base64_of(picture)}"
    parts = [
        {"type": "text", "text": message["content"]},
        {"type": "image_url", "image_url": {"url": url}},
    ]
    return {**message, "content": parts}


def base64_of(picture: Picture) -> str:
    """Return the picture's bytes in Base64. Raises PictureChangedError as ``content`` does."""
    return base64.b64encode(picture.content()).decode()


def tokens_of_picture(model: str, picture: Picture) -> int:
    """Return about how many input tokens the picture has: an estimate by OpenAI's rule.

    Other providers count in other ways. What a call has cost is told by the endpoint's own count.
    """
    tiles = _count_tiles(picture.width, picture.height)
    if model.rpartition("/")[2].startswith(DEARER_MODEL):
        return TOKENS_OF_A_DEARER_PICTURE + TOKENS_OF_A_DEARER_TILE * tiles
    return TOKENS_OF_A_PICTURE + TOKENS_OF_A_TILE * tiles


def _count_tiles(width: int, height: int) -> int:
    """Return how many tiles cover the picture after it was scaled down. None is scaled up."""
    fitting = min(1.0, LONGEST_SIDE / max(width, height))
    shorter = min(width, height) * fitting
    scale = fitting * min(1.0, SHORTER_SIDE / shorter)
    across, down = (max(1, ceil(round(side * scale) / TILE)) for side in (width, height))
    return across * down
