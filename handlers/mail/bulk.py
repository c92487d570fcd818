"""Bulk mail: low priority, and a link by which each recipient can unsubscribe.

A link has a signed token, which cannot be forged for another tenant or address.
"""

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import sha256
from hmac import compare_digest, digest

from handlers.mail.payloads import LINK
from handlers.payloads import DEFAULT_TENANT
from handlers.suppressions import UNSUBSCRIBED, canonical, suppress
from mayfly import Cancel, Dead, Job, setting

LANE = "send_digest"  # of digests and mails to the members of a board; those of blasts have their own
LOW_PRIORITY = 2  # so that new work of the lane starts while earlier mails are still being sent
SIGNED_BYTES = 16
PLACEHOLDER = "{token}"
MAX_URL_LENGTH = 200  # so that the link with the longest token fits into a payload


class UnsubscribeLinks:
    """Reads its settings once, for many recipients of a tenant."""

    def __init__(self, tenant_id: str = DEFAULT_TENANT) -> None:
        self._tenant_id = tenant_id
        self._url, self._secret = _configured("UNSUBSCRIBE_URL"), _configured("UNSUBSCRIBE_SECRET")
        is_link = re.fullmatch(LINK, self._url.replace(PLACEHOLDER, "")) is not None
        if PLACEHOLDER not in self._url or len(self._url) > MAX_URL_LENGTH or not is_link:
            rule = (
                f"begin with https:// or mailto:, contain {PLACEHOLDER}, and have at most {MAX_URL_LENGTH} characters"
            )
            raise Dead(f"UNSUBSCRIBE_URL must {rule}")

    def link_for(self, address: str) -> str:
        return self._url.replace(PLACEHOLDER, token_for(self._tenant_id, address, self._secret))


def token_for(tenant_id: str, address: str, secret: str) -> str:
    """The tenant and address, and their signature."""
    plain = f"{tenant_id} {canonical(address)}".encode()
    return f"{_encoded(plain)}.{_encoded(_signed(plain, secret))}"


def owner_of(token: str, secret: str) -> tuple[str, str] | None:
    """Return the tenant and address, or None if the signature is wrong."""
    text, _, proof = token.partition(".")
    try:
        plain, signed = _decoded(text), _decoded(proof)
    except ValueError:
        return None
    if not compare_digest(signed, _signed(plain, secret)):
        return None
    tenant_id, _, address = plain.decode().partition(" ")
    return tenant_id, address


def unsubscribe_address(job: Job, token: str) -> str:
    owner = owner_of(token, setting("UNSUBSCRIBE_SECRET"))
    if owner is None:
        raise Dead("the token is not valid, or was signed with another UNSUBSCRIBE_SECRET")
    tenant_id, address = owner
    suppress(job, tenant_id, address, UNSUBSCRIBED)
    return address


def _configured(name: str) -> str:
    """Like `requires`, for jobs that do more than send mail."""
    found = setting(name, "")
    if not found:
        raise Cancel(f"integration not configured: {name}")
    return found


def _signed(plain: bytes, secret: str) -> bytes:
    return digest(secret.encode(), plain, sha256)[:SIGNED_BYTES]


def _encoded(content: bytes) -> str:
    return urlsafe_b64encode(content).decode().rstrip("=")


def _decoded(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))
