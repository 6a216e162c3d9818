"""Convert PDF files and pictures by a server of MinerU: input.converter: {pdf: mineru.py:convert}.

It speaks POST /v1/file_parse as mineru-api of MinerU 4.0.12 has it; MinerU 2 has another interface.
MINERU_URL and MINERU_API_KEY are read from the environment.
"""

import json
import os
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

from pipeline.contract.conversion import Conversion

LONGEST_WAIT = 3600
"""The most seconds that the server waits for a result. input.convert_seconds is the real limit."""


def convert(path: Path) -> Conversion:
    """Convert a file to Markdown.

    Raises OSError if the server is away, busy or too slow, so that the file is tried again, and
    ValueError for a file that it cannot convert.
    """
    # The server needs the suffix alone; the name of the file may say what is nobody's business.
    query = {
        "filename": f"document{path.suffix}", "output_formats": "markdown",
        "wait_timeout": LONGEST_WAIT,
    }  # fmt: skip
    url = os.environ.get("MINERU_URL", "http://localhost:8000")
    headers = {"Content-Type": "application/octet-stream"}
    if key := os.environ.get("MINERU_API_KEY"):
        headers["Authorization"] = f"Bearer {key}"
    request = Request(f"{url}/v1/file_parse?{urlencode(query)}", path.read_bytes(), headers)
    [file] = _answer(request)["files"]
    if file["status"] != "completed":
        raise ValueError(f"MinerU: {_fault_of(file)}")
    return Conversion(file["content"]["markdown"], "MinerU")


def _answer(request: Request) -> dict[str, Any]:
    """Return the answer, also that of a task that failed, which has the file's error in it."""
    try:
        with urlopen(request) as response:
            answer = json.load(response)
            if response.status == 202:
                raise TimeoutError(f"MinerU: not ready after {LONGEST_WAIT} s")
            return answer
    except HTTPError as error:
        said = error.read()
        if error.code == 409:
            return json.loads(said)
        fault = f"MinerU: {error.code}: {said[:200].decode(errors='replace')}"
        is_passing = error.code in (401, 403, 404, 408, 429) or error.code >= 500
        raise (OSError(fault) if is_passing else ValueError(fault)) from None


def _fault_of(file: dict[str, Any]) -> str:
    return (file.get("error") or {}).get("message") or file["status"]
