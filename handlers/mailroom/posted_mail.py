"""Rebuild the raw message from the fields of a provider's form: text, HTML, attachments and headers. Pure.

The same form yields the same bytes: a request that a provider repeats is one message.
"""

import json
import re
from base64 import encodebytes
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from typing import Any, NamedTuple
from urllib.parse import quote

CRLF = b"\r\n"
HEADER_NAME = re.compile(r"[!-9;-~]{1,255}")
CONTENT_TYPE = re.compile(r"[\w.+-]{1,127}/[\w.+-]{1,127}", re.ASCII)
UNKNOWN_TYPE = "application/octet-stream"
# Of the original structure, which the provider has taken apart.
STRUCTURE = ("content-type", "content-transfer-encoding", "content-disposition", "mime-version")
NAMED_FIELDS = {"From": "from", "To": "to", "Subject": "subject"}  # headers, if the form has them as fields only

Headers = Sequence[tuple[str, str]]


class PostedFile(NamedTuple):
    name: str
    content_type: str
    content: bytes


def from_mailgun(fields: Mapping[str, str], files: Sequence[PostedFile]) -> bytes:
    """A route of Mailgun whose address does not end with `mime`: `body-plain`, `body-html`, `message-headers`."""
    headers: list[tuple[str, str]] = []
    with suppress(ValueError, TypeError):
        headers = [(str(name), str(value)) for name, value in json.loads(fields.get("message-headers", "[]"))]
    return _rebuilt(headers, fields, fields.get("body-plain", ""), fields.get("body-html", ""), files)


def from_sendgrid(fields: Mapping[str, str], files: Mapping[str, PostedFile]) -> bytes:
    """Inbound Parse without the raw message: `headers`, `text`, `html`, `charsets`, `attachment-info`."""
    charsets, info = _object(fields.get("charsets")), _object(fields.get("attachment-info"))
    decoded = {name: _decoded(value, charsets.get(name)) for name, value in fields.items()}
    attached = [_described(file, info.get(name)) for name, file in files.items()]
    headers = list(_header_lines(decoded.get("headers", "")))
    return _rebuilt(headers, decoded, decoded.get("text", ""), decoded.get("html", ""), attached)


def _described(file: PostedFile, info: object) -> PostedFile:
    """The form names the type of each attachment in a field of its own."""
    known = info if isinstance(info, dict) else {}
    name, content_type = known.get("filename") or known.get("name") or file.name, known.get("type")
    return PostedFile(str(name), str(content_type or file.content_type), file.content)


def _object(text: str | None) -> dict[str, Any]:
    with suppress(ValueError):
        found = json.loads(text or "{}")
        return found if isinstance(found, dict) else {}
    return {}


def _decoded(value: str, charset: object) -> str:
    """A field in another character set than UTF-8 was decoded as Latin-1."""
    if isinstance(charset, str) and charset.lower() not in ("utf-8", "utf8"):
        with suppress(UnicodeError, LookupError):
            return value.encode("latin-1").decode(charset)
    return value


def _header_lines(block: str) -> Iterator[tuple[str, str]]:
    """Folded lines belong to the header before them."""
    for line in re.sub(r"\r?\n[ \t]+", " ", block).splitlines():
        name, colon, value = line.partition(":")
        if colon:
            yield name, value


# --- the message ------------------------------------------------------------------------------------------


def _rebuilt(headers: Headers, fields: Mapping[str, str], text: str, html: str, files: Sequence[PostedFile]) -> bytes:
    bodies = [_body(kind, content) for kind, content in (("plain", text), ("html", html)) if content]
    bodies = bodies or [_body("plain", "")]
    content = bodies[0] if len(bodies) == 1 else _multipart("alternative", bodies)
    if files:
        content = _multipart("mixed", [content, *map(_attachment, files)])
    return b"".join(_head(headers, fields)) + b"MIME-Version: 1.0\r\n" + content


def _head(headers: Headers, fields: Mapping[str, str]) -> Iterator[bytes]:
    """In UTF-8 (RFC 6532), as the provider has decoded them."""
    kept = [each for each in headers if each[0].strip().lower() not in STRUCTURE]
    present = {name.strip().lower() for name, _ in kept}
    named = ((name, fields[key]) for name, key in NAMED_FIELDS.items() if key in fields)
    for name, value in (*kept, *(each for each in named if each[0].lower() not in present)):
        if HEADER_NAME.fullmatch(name.strip()):
            yield f"{name.strip()}: {' '.join(value.split())}".encode("utf-8", "replace") + CRLF


def _multipart(kind: str, parts: Sequence[bytes]) -> bytes:
    """The boundary is a hash of the parts, so that they cannot contain it."""
    boundary = f"=_{sha256(b'|'.join(parts)).hexdigest()}"
    opening, closing = f"--{boundary}\r\n".encode(), f"--{boundary}--\r\n".encode()
    head = f'Content-Type: multipart/{kind}; boundary="{boundary}"\r\n\r\n'.encode()
    return head + b"".join(opening + part + CRLF for part in parts) + closing


def _body(kind: str, text: str) -> bytes:
    return _base64([f"Content-Type: text/{kind}; charset=utf-8"], text.encode("utf-8", "replace"))


def _attachment(file: PostedFile) -> bytes:
    """A message in a message must not be encoded (RFC 2046): a bounce has one."""
    content_type = file.content_type if CONTENT_TYPE.fullmatch(file.content_type) else UNKNOWN_TYPE
    name = f"; filename*=utf-8''{quote(file.name, safe='')}" if file.name else ""
    lines = [f"Content-Type: {content_type}", f"Content-Disposition: attachment{name}"]
    if content_type.lower().startswith("message/"):
        return _lines(lines) + CRLF + file.content
    return _base64(lines, file.content)


def _base64(lines: Iterable[str], content: bytes) -> bytes:
    return _lines([*lines, "Content-Transfer-Encoding: base64"]) + CRLF + encodebytes(content).replace(b"\n", CRLF)


def _lines(lines: Iterable[str]) -> bytes:
    return b"".join(line.encode() + CRLF for line in lines)
