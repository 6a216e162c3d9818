"""The recipes for converters, against servers that speak the protocols of docling-serve 1.38.2 and
of MinerU 4.0.12, as their published code has them. The programs themselves are not run."""

import json
import shutil
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

import pytest

from pipeline.contract.conversion import Conversion
from pipeline.verbs.load_documents import LoadParams, load_documents
from tests.servers.openai_files import read_multipart

CONVERTERS = Path(__file__).parents[2] / "examples" / "converters"
CONTENT = b"%PDF-1.7 \x00\xff\r\n--"
TEXT = "# The lamp 灯塔\n\nMira Vale built it."


@dataclass(frozen=True)
class Asked:
    path: str
    headers: Mapping[str, str]
    body: bytes


class Server(ThreadingHTTPServer):
    """A server that notes each request and gives the scripted answers: a status and a body."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[Asked] = []
        self.script: deque[tuple[int, Any]] = deque()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        server = cast(Server, self.server)
        body = self.rfile.read(int(self.headers["Content-Length"]))
        server.asked.append(Asked(self.path, dict(self.headers), body))
        status, answer = server.script.popleft()
        content = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with Server() as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        for name in ("DOCLING_SERVE", "MINERU"):
            monkeypatch.setenv(f"{name}_URL", server.url)
            monkeypatch.setenv(f"{name}_API_KEY", "a-key")
        yield server
        server.shutdown()


@pytest.fixture
def scan(tmp_path: Path) -> Path:
    path = tmp_path / 'se"cret\n.pdf'
    path.write_bytes(CONTENT)
    return path


def converter(name: str) -> Callable[[Path], Conversion]:
    spec = spec_from_file_location(name, CONVERTERS / f"{name}.py")
    assert spec
    assert spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.convert


def of_docling(status: str = "success", text: str | None = TEXT, *faults: str) -> dict[str, Any]:
    """The body of ConvertDocumentResponse."""
    errors = [
        {"component_type": "document_backend", "module_name": "m", "error_message": fault}
        for fault in faults
    ]
    document = {"filename": "document.pdf", "md_content": text, "json_content": None}
    return {"document": document, "status": status, "errors": errors, "processing_time": 1.5}


def of_mineru(status: str = "completed", text: str = TEXT, fault: str = "") -> dict[str, Any]:
    """The body of TaskResultResponse."""
    error = {"type": "api_error", "code": None, "message": fault, "param": None} if fault else None
    content = {"markdown": text} if status == "completed" else {}
    file = {"name": "document.pdf", "status": status, "error": error, "content": content}
    return {"task_id": "job-1", "status": status, "files": [file]}


def test_docling_serve_gets_the_file_and_the_form_that_it_reads(server: Server, scan: Path):
    server.script.append((200, of_docling()))
    found = converter("docling_serve")(scan)
    assert (found.text, found.converter, found.faults) == (TEXT, "docling-serve", ())
    [asked] = server.asked
    parts = read_multipart(asked.headers["Content-Type"], asked.body)
    assert asked.path == "/v1/convert/file"
    assert asked.headers["X-Api-Key"] == "a-key"
    assert (parts["files"].content, parts["files"].filename) == (CONTENT, "document.pdf")
    assert {name: part.content.decode() for name, part in parts.items() if not part.filename} == {
        "to_formats": "md", "image_export_mode": "placeholder", "target_type": "inbody",
    }  # fmt: skip


def test_mineru_gets_the_bytes_of_the_file_and_its_options_in_the_query(server: Server, scan: Path):
    server.script.append((200, of_mineru()))
    found = converter("mineru")(scan)
    assert (found.text, found.converter) == (TEXT, "MinerU")
    [asked] = server.asked
    address = urlsplit(asked.path)
    assert (address.path, asked.body) == ("/v1/file_parse", CONTENT)
    assert parse_qs(address.query) == {
        "filename": ["document.pdf"], "output_formats": ["markdown"], "wait_timeout": ["3600"],
    }  # fmt: skip
    assert asked.headers["Content-Type"] == "application/octet-stream"
    assert asked.headers["Authorization"] == "Bearer a-key"


def test_a_part_that_docling_serve_could_not_read_is_a_fault(server: Server, scan: Path):
    server.script.append((200, of_docling("partial_success", TEXT, "page 3")))
    found = converter("docling_serve")(scan)
    assert found.text == TEXT
    assert [fault.reason for fault in found.faults] == ["in_part"]
    assert "page 3" in found.faults[0].message


@dataclass(frozen=True)
class Failure:
    name: str
    answer: tuple[int, Any]
    error: type[Exception]
    said: str = field(default="")


@pytest.mark.parametrize(
    "failure",
    [
        Failure(
            "docling_serve", (200, of_docling("failure", None, "no PDF")), ValueError, "no PDF"
        ),
        Failure("docling_serve", (422, {"detail": "no such format"}), ValueError, "no such format"),
        Failure("docling_serve", (504, {"detail": "taking too long"}), OSError, "too long"),
        Failure("docling_serve", (401, {"detail": "Unauthorized"}), OSError, "401"),
        Failure("mineru", (409, of_mineru("failed", fault="no PDF")), ValueError, "no PDF"),
        Failure("mineru", (400, {"error": {"message": "empty file"}}), ValueError, "empty file"),
        Failure("mineru", (202, of_mineru("running")), OSError, "not ready"),
        Failure("mineru", (503, {}), OSError, "503"),
    ],
    ids=lambda failure: f"{failure.name}-{failure.answer[0]}",
)
def test_a_fault_of_the_file_is_told_from_one_of_the_server(
    server: Server, scan: Path, failure: Failure
):
    server.script.append(failure.answer)
    with pytest.raises(failure.error, match=failure.said):
        converter(failure.name)(scan)


@pytest.mark.parametrize("name", ["docling_serve", "mineru"])
def test_a_file_is_a_document_and_one_without_a_server_is_tried_again(
    tmp_path: Path, server: Server, name: str
):
    folder = tmp_path / "input"
    folder.mkdir()
    (folder / "lamp.pdf").write_bytes(CONTENT)
    shutil.copy(CONVERTERS / f"{name}.py", tmp_path)
    params = LoadParams(
        path=str(folder), converter={"pdf": f"{name}.py:convert"}, converter_folder=str(tmp_path)
    )
    server.script.append((200, of_docling() if name == "docling_serve" else of_mineru()))
    documents, _ = load_documents(params)
    assert documents["text"].item() == TEXT
    server.shutdown()
    server.server_close()
    _, rejects = load_documents(params)
    assert rejects["reason"].item() == "io_error"
    assert "the next run converts it again" in rejects["message"].item()
