"""Scans as text, with the extra ``ocr``: rapidocr, whose models lie in its wheel."""

from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

_LEAST_SURE = 0.5
"""What is read with less confidence is noise in the picture."""
_SAME_LINE = 0.6
"""Of a line's height: boxes whose middles are nearer are on one line."""


@cache
def ocr_version() -> str:
    """Name and version of what reads scans; empty where the extra is not installed."""
    try:
        return f"rapidocr {version('rapidocr')}" if version("onnxruntime") else ""
    except PackageNotFoundError:
        return ""


def read_picture(picture: np.ndarray) -> str:
    """The text of a picture (height, width, colours), line by line from the top, left to right."""
    found = _reader()(picture)
    if found.txts is None:
        return ""
    boxes = [
        (float(box[:, 1].mean()), float(np.ptp(box[:, 1])), float(box[:, 0].min()), text)
        for box, text, sure in zip(found.boxes, found.txts, found.scores, strict=True)
        if sure >= _LEAST_SURE
    ]
    return "\n".join(" ".join(text for *_, text in sorted(line, key=lambda box: box[2])) for line in _lines(boxes))


def _lines(boxes: list[tuple[float, float, float, str]]) -> list[list[tuple[float, float, float, str]]]:
    """Boxes (middle, height, left, text) by line."""
    lines: list[list[tuple[float, float, float, str]]] = []
    for box in sorted(boxes):
        if lines and box[0] - lines[-1][-1][0] < _SAME_LINE * min(box[1], lines[-1][-1][1]):
            lines[-1].append(box)
        else:
            lines.append([box])
    return lines


@cache
def _reader() -> Any:
    from rapidocr import RapidOCR  # pyright: ignore[reportMissingImports]

    return RapidOCR(params={"Global.log_level": "error"})
