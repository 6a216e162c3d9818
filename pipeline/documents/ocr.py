"""Scans as text, with the extra ``ocr``: rapidocr, whose models lie in its wheel."""

from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

_SETTINGS = {
    "Global.log_level": "error",
    "Det.limit_type": "max",
    "Det.limit_side_len": 1216,
    "Rec.rec_batch_num": 1,
    "EngineConfig.onnxruntime.enable_cpu_mem_arena": False,
    "EngineConfig.onnxruntime.intra_op_num_threads": 1,
    "EngineConfig.onnxruntime.inter_op_num_threads": 1,
}
"""A page in half a gigabyte, where it would take twice as much: lines are sought in a smaller
picture, and read one by one in the whole one. Several pages are read at once in processes of their
own."""
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
    try:
        found = _reader()(picture)
    except Exception as error:  # the runtime has a class of its own for it, below no other
        if "bad_alloc" in str(error):
            raise MemoryError from error
        raise
    if found.txts is None:
        return ""
    boxes = [
        (float(box[:, 1].mean()), float(np.ptp(box[:, 1])), float(box[:, 0].min()), text)
        for box, text, sure in zip(found.boxes, found.txts, found.scores, strict=True)
        if sure >= _LEAST_SURE
    ]
    return "\n".join(
        " ".join(text for *_, text in sorted(line, key=lambda box: box[2]))
        for line in _lines(boxes)
    )


def _lines(
    boxes: list[tuple[float, float, float, str]],
) -> list[list[tuple[float, float, float, str]]]:
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

    return RapidOCR(params=_SETTINGS)
