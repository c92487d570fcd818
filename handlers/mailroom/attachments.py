"""Which attachments are stored, by size and type. Refused ones are still in the raw message."""

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Self

from handlers.mailroom.parsing import ParsedAttachment
from mayfly import MayflyError, setting

USUAL_MAX_BYTES = 25 << 20
USUAL_TYPES = "*"
# What mail programs refuse to open, whatever type it claims to be.
DANGEROUS = frozenset(
    {".bat", ".chm", ".cmd", ".com", ".cpl", ".exe", ".hta", ".jar", ".js", ".jse", ".lnk", ".msi", ".msp", ".pif"}
    | {".ps1", ".reg", ".scr", ".vb", ".vbe", ".vbs", ".wsf", ".wsh"}
)


class BadAttachmentSetting(MayflyError):
    sentence = "MAIL_ATTACHMENT_BYTES={} must be a number of bytes, 0 or more."


@dataclass(frozen=True)
class AttachmentRules:
    max_bytes: int
    types: tuple[str, ...]  # patterns, such as image/*

    @classmethod
    def from_settings(cls) -> Self:
        text = setting("MAIL_ATTACHMENT_BYTES", str(USUAL_MAX_BYTES))
        if not (text.isascii() and text.isdigit()):
            raise BadAttachmentSetting(text)
        return cls(int(text), tuple(setting("MAIL_ATTACHMENT_TYPES", USUAL_TYPES).lower().split()))

    def refusal_of(self, attachment: ParsedAttachment) -> str | None:
        """Why it is not stored; None if it is."""
        if len(attachment.content) > self.max_bytes:
            return f"too large: {len(attachment.content):,} bytes"
        suffix = f".{attachment.name.rpartition('.')[2].lower().strip()}"
        if suffix in DANGEROUS:
            return f"type not allowed: {suffix}"
        if not any(fnmatchcase(attachment.content_type.lower(), each) for each in self.types):
            return f"type not allowed: {attachment.content_type}"[:190]
        return None
