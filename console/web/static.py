"""Stylesheet, script and icon, each at an address that contains the hash of its content."""

from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from fastapi import APIRouter, HTTPException, Response
from fastapi.responses import PlainTextResponse

FOLDER = Path(__file__).parent / "static"
TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
IMMUTABLE = "public, max-age=31536000, immutable"

router = APIRouter(include_in_schema=False)


class StaticFile(NamedTuple):
    content: bytes
    type: str
    digest: str


@cache
def files() -> Mapping[str, StaticFile]:
    """Read once, so that an upgrade in progress does not mix files of two versions."""
    found = {}
    for path in sorted(FOLDER.iterdir()):
        content = path.read_bytes()
        found[path.name] = StaticFile(content, TYPES[path.suffix], sha256(content).hexdigest()[:16])
    return found


def address(name: str) -> str:
    return f"/static/{files()[name].digest}/{name}"


@router.get("/static/{digest}/{name}")
async def static(digest: str, name: str) -> Response:
    file = files().get(name)
    if file is None or file.digest != digest:
        raise HTTPException(404, "There is no such file.")
    return Response(file.content, media_type=file.type, headers={"Cache-Control": IMMUTABLE})


@router.get("/robots.txt")
async def robots() -> Response:
    return PlainTextResponse("User-agent: *\nDisallow: /\n")
