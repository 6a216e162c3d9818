"""Read scans by OCR with the extra `ocr`: rapidocr, whose wheel contains its models."""

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
"""The settings with which a page takes half a gigabyte of memory instead of twice as much.

Lines are searched in a smaller picture and read one by one in the whole one. One thread suffices,
since several pages are read at once in processes of their own.
"""
_LEAST_SURE = 0.5
"""The confidence below which a text is noise in the picture."""
_SAME_LINE = 0.6
"""The share of a line's height within which the middles of boxes on one line differ."""
_Box = tuple[float, float, float, str]
"""A text with the middle and the height of its box, and the position of the left edge."""


@cache
def ocr_version() -> str:
    """Return name and version of the library that reads scans, or "" without the extra."""
    try:
        return f"rapidocr {version('rapidocr')}" if version("onnxruntime") else ""
    except PackageNotFoundError:
        return ""


def read_picture(picture: np.ndarray) -> str:
    """Return the text of a picture (height, width, colours), line by line from the top.

    Raises MemoryError if there is too little memory.
    """
    try:
        found = _reader()(picture)
    except Exception as error:
        # The runtime's own class of errors is derived from no other.
        if "bad_alloc" in str(error):
            raise MemoryError from error
        raise
    if found.txts is None:
        return ""
    boxes: list[_Box] = []
    for corners, text, confidence in zip(found.boxes, found.txts, found.scores, strict=True):
        if confidence >= _LEAST_SURE:
            across, down = corners[:, 0], corners[:, 1]
            boxes.append((float(down.mean()), float(np.ptp(down)), float(across.min()), text))
    lines: list[str] = []
    for line in _group_by_line(boxes):
        from_left = sorted(line, key=lambda box: box[2])
        lines.append(" ".join(text for *_, text in from_left))
    return "\n".join(lines)


def _group_by_line(boxes: list[_Box]) -> list[list[_Box]]:
    """Return the boxes of each line, from the top."""
    lines: list[list[_Box]] = []
    for box in sorted(boxes):
        middle, height, *_ = box
        if lines:
            middle_before, height_before, *_ = lines[-1][-1]
            if middle - middle_before < _SAME_LINE * min(height, height_before):
                lines[-1].append(box)
                continue
        lines.append([box])
    return lines


@cache
def _reader() -> Any:
    from rapidocr import RapidOCR  # pyright: ignore[reportMissingImports]

    return RapidOCR(params=_SETTINGS)
