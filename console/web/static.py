"""The style, the script and the icon, each under an address that has the hash of its content."""

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
    mark: str


@cache
def files() -> Mapping[str, StaticFile]:
    """Read once: what is served while a new release is unpacked fits together."""
    found = {}
    for path in sorted(FOLDER.iterdir()):
        content = path.read_bytes()
        found[path.name] = StaticFile(content, TYPES[path.suffix], sha256(content).hexdigest()[:16])
    return found


def address(name: str) -> str:
    return f"/static/{files()[name].mark}/{name}"


@router.get("/static/{mark}/{name}")
async def static(mark: str, name: str) -> Response:
    file = files().get(name)
    if file is None or file.mark != mark:
        raise HTTPException(404, "There is no such file.")
    return Response(file.content, media_type=file.type, headers={"Cache-Control": IMMUTABLE})


@router.get("/robots.txt")
async def robots() -> Response:
    """Nothing here is for anybody's index."""
    return PlainTextResponse("User-agent: *\nDisallow: /\n")
