"""Convert files by a server of docling-serve: input.converter: docling_serve.py:convert.

It speaks POST /v1/convert/file as docling-serve 1.38.2 has it. DOCLING_SERVE_URL and
DOCLING_SERVE_API_KEY are read from the environment.
"""

import json
import os
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen
from uuid import uuid4

from pipeline.contract.conversion import Conversion, PartFault

OPTIONS = {"to_formats": "md", "image_export_mode": "placeholder", "target_type": "inbody"}
"""The fields of the form. The server may have another default of target_type."""


def convert(path: Path) -> Conversion:
    """Convert a file to Markdown.

    Raises OSError if the server is away, busy or too slow, so that the file is tried again, and
    ValueError for a file that it cannot convert.
    """
    boundary = uuid4().hex
    parts = [_part(boundary, f'name="{name}"', value.encode()) for name, value in OPTIONS.items()]
    # The server needs the suffix alone; the name of the file may say what is nobody's business.
    named = f'name="files"; filename="document{path.suffix}"'
    parts.append(_part(boundary, named, path.read_bytes()))
    url = os.environ.get("DOCLING_SERVE_URL", "http://localhost:5001")
    headers = {"Content-Type": f"multipart/form-data; boundary={boundary}"}
    if key := os.environ.get("DOCLING_SERVE_API_KEY"):
        headers["X-Api-Key"] = key
    body = b"".join(parts) + f"--{boundary}--\r\n".encode()
    answer = _answer(Request(f"{url}/v1/convert/file", body, headers))
    faults = [error["error_message"] for error in answer["errors"]]
    said = "; ".join(faults)[:200] or "it says no reason"
    if answer["status"] not in ("success", "partial_success"):
        raise ValueError(f"docling-serve: {answer['status']}: {said}")
    lost = answer["status"] == "partial_success"
    parts_lost = (PartFault("in_part", f"docling-serve: read but for parts: {said}"),)
    text = answer["document"]["md_content"] or ""
    return Conversion(text, "docling-serve", faults=parts_lost if lost else ())


def _part(boundary: str, disposition: str, content: bytes) -> bytes:
    head = f"--{boundary}\r\nContent-Disposition: form-data; {disposition}\r\n"
    if "filename" in disposition:
        head += "Content-Type: application/octet-stream\r\n"
    return head.encode() + b"\r\n" + content + b"\r\n"


def _answer(request: Request) -> dict[str, Any]:
    """Return the server's answer; input.convert_seconds limits the time."""
    try:
        with urlopen(request) as response:
            return json.load(response)
    except HTTPError as error:
        said = error.read(200).decode(errors="replace")
        fault = f"docling-serve: {error.code}: {said}"
        # 504: the server waits no longer than its DOCLING_SERVE_MAX_SYNC_WAIT.
        is_passing = error.code in (401, 403, 404, 408, 429) or error.code >= 500
        raise (OSError(fault) if is_passing else ValueError(fault)) from None
