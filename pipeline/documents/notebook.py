"""Convert a Jupyter notebook (IPYNB, nbformat 3 and 4) to Markdown: its texts and its code."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pipeline.contract.conversion import Conversion
from pipeline.documents.encoding import decoded
from pipeline.text.ids import clean

SUFFIX = ".ipynb"
CONVERTER = "notebook 1"
"""The name and version of this converter. Raise the number when the same notebook gives another
text."""


def convert_notebook(path: Path) -> Conversion:
    """Convert a notebook. Outputs are left out: they are results of the code, and often pictures.

    Raises ValueError if it is no notebook.
    """
    notebook = json.loads(decoded(path.read_bytes(), "utf-8", ()).text)
    if not isinstance(notebook, dict) or not isinstance(notebook.get("nbformat"), int):
        raise ValueError("no notebook: it has no 'nbformat'")
    metadata = _mapping(notebook.get("metadata"))
    language = str(_mapping(metadata.get("language_info")).get("name", ""))
    texts = [_text_of(cell, language) for cell in _cells(notebook)]
    title = metadata.get("title")
    return Conversion(
        clean("\n\n".join(filter(None, texts))), CONVERTER, title if isinstance(title, str) else ""
    )


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _cells(notebook: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the cells; nbformat 3 has them in worksheets."""
    holders = notebook.get("worksheets") or [notebook]
    for holder in holders:
        yield from map(_mapping, _mapping(holder).get("cells") or [])


def _text_of(cell: Mapping[str, Any], language: str) -> str:
    """Return the Markdown of a cell; code stands in a fence."""
    # nbformat 3 calls the source of code "input".
    source = cell.get("source", cell.get("input", ""))
    if isinstance(source, list):
        source = "".join(map(str, source))
    text = source if isinstance(source, str) else ""
    kind = cell.get("cell_type")
    if not text.strip():
        return ""
    if kind == "code":
        return f"```{language}\n{text.strip()}\n```"
    if kind == "heading":
        return f"{'#' * int(cell.get('level', 1))} {text.strip()}"
    return text.strip()
