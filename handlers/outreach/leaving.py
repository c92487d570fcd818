"""Ways out of a blast: a link for each recipient that nobody can make up for somebody else."""

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import sha256
from hmac import compare_digest, digest

from handlers.mail.payloads import LINK
from handlers.suppressions import UNSUBSCRIBED, canonical, suppress
from mayfly import Dead, Job, setting

SIGNED_BYTES = 16
PLACE = "{token}"
LONGEST_URL = 200  # characters: the link with the longest token must fit its header


class WayOut:
    """Reads its settings once for a whole blast."""

    def __init__(self) -> None:
        self._url, self._secret = setting("UNSUBSCRIBE_URL"), setting("UNSUBSCRIBE_SECRET")
        is_link = re.fullmatch(LINK, self._url.replace(PLACE, "")) is not None
        if PLACE not in self._url or len(self._url) > LONGEST_URL or not is_link:
            rule = f"begin with https:// or mailto:, have {PLACE} in it, and at most {LONGEST_URL} characters"
            raise Dead(f"UNSUBSCRIBE_URL must {rule}")

    def link_for(self, address: str) -> str:
        return self._url.replace(PLACE, token_for(address, self._secret))


def token_for(address: str, secret: str) -> str:
    """The address itself, and the proof that we have written it."""
    plain = canonical(address).encode()
    return f"{_encoded(plain)}.{_encoded(_signed(plain, secret))}"


def address_of(token: str, secret: str) -> str | None:
    """None for one that is not ours."""
    text, _, proof = token.partition(".")
    try:
        plain, signed = _decoded(text), _decoded(proof)
    except ValueError:
        return None
    return plain.decode() if compare_digest(signed, _signed(plain, secret)) else None


def leave(job: Job, token: str) -> str:
    address = address_of(token, setting("UNSUBSCRIBE_SECRET"))
    if address is None:
        raise Dead("the token was not made by this platform, or with another UNSUBSCRIBE_SECRET")
    suppress(job, address, UNSUBSCRIBED)
    return address


def _signed(plain: bytes, secret: str) -> bytes:
    return digest(secret.encode(), plain, sha256)[:SIGNED_BYTES]


def _encoded(content: bytes) -> str:
    return urlsafe_b64encode(content).decode().rstrip("=")


def _decoded(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))
