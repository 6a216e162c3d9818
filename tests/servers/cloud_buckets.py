"""A bucket in memory that speaks what a reader asks of Google Cloud Storage (its XML API) and of
Azure: a list in pages, and an object. Each request must be signed by the key."""

import base64
import hashlib
import hmac
import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Protocol
from urllib.parse import parse_qsl, unquote, urlsplit
from xml.sax.saxutils import escape

from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import RSAKey

from tests.servers.serving import serving

BUCKET = "bucket"
ACCOUNT = "local"
ON_A_PAGE = 2
WRITTEN = 1_700_000_000.0
"""The time at which each object was written: only its content tells of a change."""
PART = 100_000
"""The bytes of an object that a slow bucket sends together."""


class Dialect(Protocol):
    """How a kind of store is asked and answers."""

    scheme: str

    def environment(self, endpoint: str) -> dict[str, str]:
        """Return the variables of a client with the right key."""
        ...

    def is_signed(self, path: str, query: Mapping[str, str], headers: dict[str, str]) -> bool: ...

    def object_named(self, path: str) -> str:
        """Return the name of the object at a path, or "" where the objects are listed."""
        ...

    def page(self, objects: Mapping[str, bytes], next_page: str) -> str: ...

    page_parameter: str
    refused: tuple[int, str]
    """The status and the code of the answer to a request that is not signed by the key."""


def e_tag(content: bytes) -> str:
    return f'"{hashlib.sha256(content).hexdigest()[:16]}"'


class Google:
    scheme = "gs"
    page_parameter = "continuation-token"
    refused: tuple[int, str] = (401, "AuthenticationRequired")

    def __init__(self, folder: Path) -> None:
        self.key = RSAKey.generate_key(2048, private=True)
        self.account = folder / "service-account.json"

    def environment(self, endpoint: str) -> dict[str, str]:
        pem = self.key.as_pem(private=True).decode()
        account = {"client_email": ACCOUNT, "private_key": pem, "private_key_id": "first"}
        self.account.write_text(json.dumps({**account, "gcs_base_url": endpoint}))
        return {"GOOGLE_SERVICE_ACCOUNT": str(self.account), "GOOGLE_BASE_URL": endpoint}

    def is_signed(self, path: str, query: Mapping[str, str], headers: dict[str, str]) -> bool:
        try:
            jwt.decode(headers.get("authorization", "").removeprefix("Bearer "), self.key)
        except JoseError:
            return False
        return True

    def object_named(self, path: str) -> str:
        return path.removeprefix(f"/{BUCKET}").removeprefix("/")

    def page(self, objects: Mapping[str, bytes], next_page: str) -> str:
        listed = "".join(
            f"<Contents><Key>{escape(name)}</Key><Size>{len(content)}</Size>"
            f"<ETag>{e_tag(content)}</ETag>"
            "<LastModified>2023-11-14T22:13:20.000Z</LastModified></Contents>"
            for name, content in objects.items()
        )
        more = f"<NextContinuationToken>{next_page}</NextContinuationToken>" if next_page else ""
        is_cut = "true" if next_page else "false"
        return (
            f"<ListBucketResult><IsTruncated>{is_cut}</IsTruncated>{more}{listed}"
            "</ListBucketResult>"
        )


class Azure:
    scheme = "az"
    page_parameter = "marker"
    refused: tuple[int, str] = (403, "AuthenticationFailed")
    key = base64.b64encode(b"local-tests-only").decode()

    def environment(self, endpoint: str) -> dict[str, str]:
        return {
            "AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT,
            "AZURE_STORAGE_ACCOUNT_KEY": self.key,
            "AZURE_STORAGE_ENDPOINT": f"{endpoint}/{ACCOUNT}",
        }

    def is_signed(self, path: str, query: Mapping[str, str], headers: dict[str, str]) -> bool:
        """Return whether the signature is that of Azure's documentation ("Shared Key")."""
        own = sorted(
            f"{name.lower()}:{value}"
            for name, value in headers.items()
            if name.lower().startswith("x-ms-")
        )
        asked = [f"{name}:{value}" for name, value in sorted(query.items())]
        date = headers.get("date", "")
        said = ["GET", *[""] * 5, date, *[""] * 5, *own, f"/{ACCOUNT}{path}", *asked]
        key = base64.b64decode(self.key)
        digest = hmac.new(key, "\n".join(said).encode(), hashlib.sha256).digest()
        signature = f"SharedKey {ACCOUNT}:{base64.b64encode(digest).decode()}"
        return headers.get("authorization") == signature

    def object_named(self, path: str) -> str:
        return path.removeprefix(f"/{ACCOUNT}/{BUCKET}").removeprefix("/")

    def page(self, objects: Mapping[str, bytes], next_page: str) -> str:
        listed = "".join(
            f"<Blob><Name>{escape(name)}</Name><Properties>"
            f"<Last-Modified>{formatdate(WRITTEN, usegmt=True)}</Last-Modified>"
            f"<Etag>{e_tag(content)}</Etag><Content-Length>{len(content)}</Content-Length>"
            "<Content-Type>text/plain</Content-Type></Properties></Blob>"
            for name, content in objects.items()
        )
        return (
            f"<EnumerationResults><Blobs>{listed}</Blobs><NextMarker>{next_page}</NextMarker>"
            "</EnumerationResults>"
        )


@dataclass
class CloudBucket:
    """A bucket whose objects have names below ``manuals``.

    Requests for the objects ``failing`` are broken off; "" among them stands for the list behind
    its first page. Of the objects ``stopping`` only a first part comes. ``pause``: the seconds
    before each part of an object. ``read`` has the objects that were asked for.
    """

    dialect: Dialect
    objects: dict[str, bytes] = field(default_factory=dict)
    failing: set[str] = field(default_factory=set)
    stopping: set[str] = field(default_factory=set)
    pause: float = 0.0
    read: list[str] = field(default_factory=list)
    endpoint: str = ""
    ended: threading.Event = field(default_factory=threading.Event)

    @property
    def address(self) -> str:
        return f"{self.dialect.scheme}://{BUCKET}/manuals"

    @property
    def environment(self) -> dict[str, str]:
        return self.dialect.environment(self.endpoint)

    def put(self, name: str, text: str) -> None:
        self.objects[f"manuals/{name}"] = text.encode()

    def delete(self, name: str) -> None:
        del self.objects[f"manuals/{name}"]

    def parts(self, name: str, content: bytes) -> Iterator[bytes]:
        """Yield an object, or another answer, as it is sent."""
        for begin in range(0, len(content), PART):
            time.sleep(self.pause)
            yield content[begin : begin + PART]
            if name in self.stopping:
                self.ended.wait()
                return


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that gives up breaks a connection off."""


@contextmanager
def cloud_bucket(dialect: Dialect) -> Iterator[CloudBucket]:
    bucket = CloudBucket(dialect)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            asked = urlsplit(self.path)
            query = dict(parse_qsl(asked.query))
            name = unquote(dialect.object_named(asked.path)).removeprefix("manuals/")
            if not dialect.is_signed(asked.path, query, dict(self.headers.items())):
                status, code = dialect.refused
                self.answer(f"<Error><Code>{code}</Code></Error>".encode(), status)
            elif name:
                bucket.read.append(name)
                self.answer_object(name)
            else:
                self.answer_page(query)

        def answer_object(self, name: str) -> None:
            content = bucket.objects.get(f"manuals/{name}")
            if name in bucket.failing:
                self.close_connection = True
            elif content is None:
                self.answer(b"<Error><Code>NoSuchKey</Code></Error>", 404)
            else:
                self.answer(content, 200, name)

        def answer_page(self, query: Mapping[str, str]) -> None:
            begin = int(query.get(dialect.page_parameter, 0))
            if begin and "" in bucket.failing:
                self.close_connection = True
                return
            found = sorted(
                each for each in bucket.objects.items() if each[0].startswith(query["prefix"])
            )
            end = begin + ON_A_PAGE
            following = str(end) if end < len(found) else ""
            self.answer(dialect.page(dict(found[begin:end]), following).encode(), 200)

        def answer(self, content: bytes, status: int, name: str = "") -> None:
            self.send_response(status)
            self.send_header("content-length", str(len(content)))
            self.send_header("etag", e_tag(content))
            self.send_header("last-modified", formatdate(WRITTEN, usegmt=True))
            self.end_headers()
            for part in bucket.parts(name, content):
                self.wfile.write(part)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = Server(("127.0.0.1", 0), Handler)
    bucket.endpoint = f"http://127.0.0.1:{server.server_address[1]}"
    with serving(server):
        yield bucket
        bucket.ended.set()
