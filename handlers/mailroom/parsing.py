"""Parse a message of any quality: it always returns something, and names what was wrong. Pure.

With the email package's `compat32` policy: the newer one parses the values of headers, which is slow, and raises
errors on some malformed ones.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from email import message_from_bytes
from email.header import decode_header
from email.message import Message
from email.utils import getaddresses
from hashlib import sha256

from handlers.mailroom.bodies import html_from_text, text_from_html
from handlers.mailroom.tables import MAX_ID_LENGTH

MAX_BODY_BYTES = 1 << 20  # of text and of HTML; the raw message is stored as a whole
MAX_HEADERS, MAX_HEADER_LENGTH = 300, 4000
MAX_PARTS, MAX_DEPTH = 500, 50
MAX_ATTACHMENTS = 100
MAX_REFERENCES = 100
MAX_SUBJECT_LENGTH, MAX_NAME_LENGTH, MAX_TYPE_LENGTH, MAX_ADDRESS_LENGTH = 500, 255, 190, 320
ID = re.compile(r"<([^<>\s]{1,998})>")
FALLBACK_CHARSETS = ("utf-8", "cp1252")  # what mail without a valid charset is written in


@dataclass(frozen=True)
class ParsedAttachment:
    name: str
    content_type: str
    content: bytes


@dataclass(frozen=True)
class ParsedMail:
    message_id: str  # without angle brackets; made from a hash if the message has none
    in_reply_to: str | None
    references: tuple[str, ...]  # the oldest first
    from_address: str
    to_addresses: tuple[str, ...]
    subject: str
    text: str
    html: str
    generated: str | None  # "text" or "html": the body that was made from the other one
    headers: tuple[tuple[str, str], ...]
    attachments: tuple[ParsedAttachment, ...] = ()
    defects: tuple[str, ...] = ()
    message: Message | None = field(default=None, repr=False, compare=False)  # for reports

    def header(self, name: str) -> str:
        """The first one, or an empty text."""
        wanted = name.lower()
        return next((value for key, value in self.headers if key.lower() == wanted), "")

    def has_header(self, name: str) -> bool:
        return any(key.lower() == name.lower() for key, _ in self.headers)

    @property
    def fingerprint(self) -> str:
        """Of what the author wrote: equal for copies that took different ways."""
        parts = (self.message_id, self.from_address, ",".join(self.to_addresses), self.subject, self.text, self.html)
        files = [sha256(each.content).hexdigest() for each in self.attachments]
        return sha256("\0".join([*parts, *files]).encode("utf-8", "replace")).hexdigest()


def parse_mail(raw: bytes) -> ParsedMail:
    """Whatever the email package cannot parse becomes plain text."""
    defects: list[str] = []
    message = _message(raw, defects)
    try:
        body = _read_parts(message, defects)
    except Exception as error:  # noqa: BLE001 - of the email package, on malformed input
        defects.append(f"body: {type(error).__name__}")
        body = _Body(text=[_decoded(raw.partition(b"\n\n")[2] or raw, None, defects)])
    headers = tuple(_headers(message, defects))
    return _assembled(raw, message, headers, body, defects)


def fill_bodies(text: str, html: str, defects: list[str]) -> tuple[str, str, str | None]:
    """Text and HTML, of limited length, and which one was generated from the other."""
    text, html = _cut(text, "text", defects), _cut(html, "html", defects)
    if html.strip() and not text.strip():
        return _cut(clean(text_from_html(html)), "text", defects), html, "text"
    if text.strip() and not html.strip():
        return text, _cut(html_from_text(text), "html", defects), "html"
    return text, html, None


def clean(text: str) -> str:
    """Without characters that a database or JSON cannot store."""
    return text.replace("\x00", "�").encode("utf-8", "replace").decode("utf-8")


def short_id(message_id: str) -> str:
    """A Message-ID as it is stored and compared: without brackets, long ones with a hash."""
    bare = clean(message_id).strip().removeprefix("<").removesuffix(">").strip()
    if len(bare) <= MAX_ID_LENGTH:
        return bare
    return bare[: MAX_ID_LENGTH - 65] + "-" + sha256(bare.encode()).hexdigest()


def address_in(text: str) -> str:
    """The first address of a header, or what stands there instead."""
    found = addresses_in([text])
    return found[0] if found else clean(" ".join(text.split()))[:MAX_ADDRESS_LENGTH]


def addresses_in(values: Iterable[str]) -> tuple[str, ...]:
    with suppress(Exception):  # of the email package, on malformed input
        pairs = getaddresses([each[:100_000] for each in values])
        return tuple(clean(address)[:MAX_ADDRESS_LENGTH] for _, address in pairs if "@" in address)[:1000]
    return ()


# --- headers ----------------------------------------------------------------------------------------------


def _message(raw: bytes, defects: list[str]) -> Message:
    try:
        message = message_from_bytes(raw)
    except Exception as error:  # noqa: BLE001 - RecursionError for example, on deeply nested messages
        defects.append(f"structure: {type(error).__name__}")
        head = re.split(rb"\r?\n\r?\n", raw, maxsplit=1)[0]
        message = message_from_bytes(re.sub(rb"(?im)^content-type:", b"X-Content-Type:", head) + b"\n\n")
        message.set_payload(raw)
    if not message.keys():
        defects.append("no headers")
    return message


def _headers(message: Message, defects: list[str]) -> Iterator[tuple[str, str]]:
    found = list(message.raw_items())  # items() would replace bytes that are not ASCII
    if len(found) > MAX_HEADERS:
        defects.append("headers were cut")
    for name, value in found[:MAX_HEADERS]:
        yield clean(str(name))[:MAX_NAME_LENGTH], _header_text(str(value), defects)


def _header_text(value: str, defects: list[str]) -> str:
    """With encoded words decoded, on one line."""
    if len(value) > MAX_HEADER_LENGTH:
        defects.append("headers were cut")
        value = value[:MAX_HEADER_LENGTH]
    text = value
    if "=?" in value:
        try:
            text = "".join(_word(word, charset, defects) for word, charset in decode_header(value))
        except Exception as error:  # noqa: BLE001 - of the email package, on malformed input
            defects.append(f"header: {type(error).__name__}")
    elif not value.isascii():
        text = _decoded(value.encode("ascii", "surrogateescape") if _is_raw(value) else value.encode(), None, defects)
    return clean(" ".join(text.split()))


def _is_raw(value: str) -> bool:
    """Whether the header has undecoded bytes."""
    return all(character < "\x80" or "\udc80" <= character <= "\udcff" for character in value)


def _word(word: bytes | str, charset: str | None, defects: list[str]) -> str:
    if isinstance(word, str):
        return word
    return _decoded(word, charset, defects)


def _ids(text: str) -> tuple[str, ...]:
    return tuple(short_id(each) for each in ID.findall(text))


# --- parts ------------------------------------------------------------------------------------------------


@dataclass
class _Body:
    text: list[str] = field(default_factory=list)
    html: list[str] = field(default_factory=list)
    attachments: list[ParsedAttachment] = field(default_factory=list)


def _read_parts(message: Message, defects: list[str]) -> _Body:
    body = _Body()
    for part in _leaves(message, defects):
        content_type, name, content = part.get_content_type(), _file_name(part, defects), _content(part)
        defects += [type(each).__name__ for each in part.defects]
        is_shown = not name and part.get_content_disposition() != "attachment"
        is_broken = part.get_content_maintype() == "multipart"  # without parts
        if is_broken or (is_shown and content_type in ("text/plain", "text/html")):
            shown = _decoded(content, part.get_content_charset(), defects)
            (body.html if content_type == "text/html" else body.text).append(shown)
        elif len(body.attachments) < MAX_ATTACHMENTS:
            body.attachments.append(ParsedAttachment(name, content_type[:MAX_TYPE_LENGTH], content))
        else:
            defects.append("attachments were skipped")
    return body


def _leaves(message: Message, defects: list[str]) -> Iterator[Message]:
    """The parts without parts. A message in a message is one part: its text is not that of the author."""
    open_parts, number = [(message, 0)], 0
    while open_parts:
        part, depth = open_parts.pop()
        number += 1
        if number > MAX_PARTS or depth > MAX_DEPTH:
            defects.append("parts were skipped")
            return
        _cut_parameters(part, defects)
        inner = part.get_payload()
        if part.get_content_maintype() == "multipart" and isinstance(inner, list):
            defects += [type(each).__name__ for each in part.defects]
            open_parts += [(each, depth + 1) for each in reversed(inner) if isinstance(each, Message)]
        else:
            yield part


def _cut_parameters(part: Message, defects: list[str]) -> None:
    """The email package takes quadratic time for them."""
    for name in ("Content-Type", "Content-Disposition"):
        value = str(part.get(name, ""))
        if len(value) > MAX_HEADER_LENGTH:
            defects.append("headers were cut")
            part.replace_header(name, value[:MAX_HEADER_LENGTH])


def _content(part: Message) -> bytes:
    inner = part.get_payload()
    if isinstance(inner, list):  # a message, or the fields of a report
        return b"\n".join(each.as_bytes() if isinstance(each, Message) else b"" for each in inner)
    content = part.get_payload(decode=True)
    return content if isinstance(content, bytes) else str(content or "").encode("utf-8", "surrogateescape")


def _file_name(part: Message, defects: list[str]) -> str:
    name = ""
    with suppress(Exception):  # of the email package, on malformed parameters
        name = _header_text(part.get_filename() or "", defects)
    name = name.replace("\\", "/").rpartition("/")[2]  # without the sender's directories
    if not name and part.get_content_type() == "message/rfc822":
        return "message.eml"
    return name[:MAX_NAME_LENGTH]


def _decoded(content: bytes, charset: str | None, defects: list[str]) -> str:
    for each in (charset, *FALLBACK_CHARSETS):
        if each is None or each.lower() in ("unknown-8bit", "us-ascii"):
            continue
        try:
            return clean(content.decode(each))
        except (LookupError, UnicodeError, ValueError):
            defects.append(f"charset: {clean(each)[:40]}")
    return clean(content.decode("latin-1"))


def _cut(text: str, name: str, defects: list[str]) -> str:
    encoded = text.encode()
    if len(encoded) <= MAX_BODY_BYTES:
        return text
    defects.append(f"{name} was cut")
    return encoded[:MAX_BODY_BYTES].decode("utf-8", "ignore")


# --- the result -------------------------------------------------------------------------------------------


def _assembled(
    raw: bytes, message: Message, headers: tuple[tuple[str, str], ...], body: _Body, defects: list[str]
) -> ParsedMail:
    values: dict[str, str] = {}
    for key, value in headers:
        values.setdefault(key.lower(), value)
    found = _ids(values.get("message-id", "")) or (
        (short_id(values["message-id"]),) if values.get("message-id") else ()
    )
    if not found or not found[0]:
        defects.append("no Message-ID")
        found = (f"{sha256(raw).hexdigest()}@missing.invalid",)
    if "from" not in values:
        defects.append("no From")
    text, html, generated = fill_bodies("\n".join(body.text), "\n".join(body.html), defects)
    replies = _ids(values.get("in-reply-to", ""))
    to = addresses_in(value for key, value in headers if key.lower() in ("to", "cc"))
    return ParsedMail(
        message_id=found[0],
        in_reply_to=replies[0] if replies else None,
        references=_ids(values.get("references", ""))[-MAX_REFERENCES:],
        from_address=address_in(values.get("from", "")),
        to_addresses=to,
        subject=values.get("subject", "")[:MAX_SUBJECT_LENGTH],
        text=text,
        html=html,
        generated=generated,
        headers=headers,
        attachments=tuple(body.attachments),
        defects=tuple(dict.fromkeys(defects)),
        message=message,
    )
