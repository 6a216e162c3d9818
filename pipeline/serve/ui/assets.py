"""Serve the style, scripts and vendored libraries. Their addresses change with their contents, so
that browsers may keep them for ever."""

import gzip
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from fastapi import APIRouter, Request, Response
from starlette.exceptions import HTTPException

from pipeline.pages.environment import STYLE, texts

HERE = Path(__file__).parent
FOLDERS = {"": HERE / "static", "vendor/": HERE / "vendor"}
TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
FOR_GOOD = {"Cache-Control": "public, max-age=31536000, immutable", "Vary": "Accept-Encoding"}
SMALL = 1000
"""Files of at most this many bytes are not compressed."""


@dataclass(frozen=True)
class Asset:
    content: bytes
    type: str

    @cached_property
    def packed(self) -> bytes:
        return gzip.compress(self.content, mtime=0)

    @property
    def packs(self) -> bool:
        return len(self.content) > SMALL


@dataclass(frozen=True)
class Assets:
    """All files, with one version for all, so that a module finds others by relative addresses."""

    files: Mapping[str, Asset]
    version: str

    @property
    def folder(self) -> str:
        """The address of the files, relative to the page's root."""
        return f"assets/{self.version}/"


def read_assets() -> Assets:
    """Return all files to serve, with ``style.css`` and ``texts.js`` beside the scripts.

    Licences and other notes are not among them.
    """
    found = {}
    for prefix, folder in FOLDERS.items():
        for file in sorted(folder.rglob("*")):
            if file.is_file() and file.suffix in TYPES:
                name = prefix + file.relative_to(folder).as_posix()
                found[name] = Asset(file.read_bytes(), TYPES[file.suffix])
    found["style.css"] = Asset(STYLE.read_bytes(), TYPES[STYLE.suffix])
    found["texts.js"] = Asset(f"export default {json.dumps(texts())};\n".encode(), TYPES[".js"])
    digest = hashlib.sha256()
    for name, asset in sorted(found.items()):
        digest.update(f"{name}\n{len(asset.content)}\n".encode() + asset.content)
    return Assets(found, digest.hexdigest()[:12])


def route_assets(assets: Assets) -> APIRouter:
    routes = APIRouter(include_in_schema=False)

    @routes.api_route("/assets/{version}/{name:path}", methods=["GET", "HEAD"])
    async def asset(http: Request, version: str, name: str) -> Response:
        found = assets.files.get(name)
        # A page of an earlier server has another version; its script then loads the page again.
        if found is None or version != assets.version:
            raise HTTPException(404, texts()["failures"]["no_asset"])
        headers = dict(FOR_GOOD)
        if packed := found.packs and "gzip" in http.headers.get("accept-encoding", ""):
            headers["Content-Encoding"] = "gzip"
        return Response(
            found.packed if packed else found.content, media_type=found.type, headers=headers
        )

    return routes
