"""Text that a process of another machine has printed, made safe to store and to show. Pure."""

import re
from collections.abc import Iterator

from mayfly.monitoring.redact import MASK, Redactor
from mayfly.settings.values import Secret, Settings, mask_password

CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
PASSWORD_OF_URL = re.compile(r"://[^/\s]*?:([^\s]+)@")
MIN_SECRET_LENGTH = 6  # a shorter one would mask ordinary words


def printed_text(text: str, settings: Settings, max_bytes: int = 500) -> str:
    """Its end: without control characters, in valid text, and with the secrets of the settings and REDACT masked."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    shown = "\n".join(mask_password(line) if "://" in line else line for line in lines)
    for secret in secrets_of(settings):
        shown = shown.replace(secret, MASK)
    shown = Redactor(settings.redact).text(CONTROLS.sub("\N{REPLACEMENT CHARACTER}", shown)) or ""
    encoded = shown.encode()
    return shown if len(encoded) <= max_bytes else encoded[-max_bytes:].decode(errors="ignore")


def secrets_of(settings: Settings) -> Iterator[str]:
    for value in vars(settings).values():
        if isinstance(value, Secret):
            text = value.get_secret_value()
            found = PASSWORD_OF_URL.search(text)
            yield from (each for each in (text, found and found[1]) if each and len(each) >= MIN_SECRET_LENGTH)
