"""Check the signatures of requests from providers. Pure: keys and `now` are arguments."""

import hmac
from base64 import b64decode
from binascii import Error as BadBase64
from datetime import datetime
from hashlib import sha256

MAX_AGE_SECONDS = 12 * 3600  # Mailgun tries again for eight hours


class BadSignature(Exception):
    """Says what is wrong, and nothing about the expected value."""


def check_mailgun(key: str, now: datetime, timestamp: str, token: str, signature: str) -> None:
    """HMAC-SHA256 of timestamp and token, in hexadecimal."""
    _check_age(timestamp, now)
    expected = hmac.new(key.encode(), f"{timestamp}{token}".encode(), sha256).hexdigest()
    if not hmac.compare_digest(expected.encode(), signature.encode()):
        raise BadSignature("The signature is wrong: is MAILGUN_SIGNING_KEY the signing key of webhooks?")


def check_sendgrid(public_key: str, now: datetime, timestamp: str, signature: str, body: bytes) -> None:
    """ECDSA with SHA-256 over timestamp and body."""
    from cryptography.exceptions import InvalidSignature  # slow to import
    from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, EllipticCurvePublicKey
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import load_der_public_key

    _check_age(timestamp, now)
    try:
        key = load_der_public_key(b64decode(public_key))
        given = b64decode(signature, validate=True)
    except (ValueError, BadBase64):
        raise BadSignature("The public key or the signature is not valid base64.") from None
    if not isinstance(key, EllipticCurvePublicKey):
        raise BadSignature("The public key is not an ECDSA key.")
    try:
        key.verify(given, timestamp.encode() + body, ECDSA(SHA256()))
    except InvalidSignature:
        raise BadSignature("The signature is wrong: is it the public key of this webhook?") from None


def _check_age(timestamp: str, now: datetime) -> None:
    """An old request may be a copy."""
    is_number = timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= 12
    if not is_number or abs(now.timestamp() - int(timestamp)) > MAX_AGE_SECONDS:
        raise BadSignature("The timestamp is missing or too old.")
