"""A fake browser for web push: its keys, and decryption by RFC 8291."""

import base64
import json
from dataclasses import dataclass, field
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

CURVE = ec.SECP256R1()
SALT, KEY_LENGTH = 16, 65  # bytes


def encoded(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def public_bytes(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)


@dataclass(frozen=True)
class Browser:
    key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(CURVE))
    secret: bytes = b"sixteen s3crets!"

    @property
    def keys(self) -> dict[str, str]:
        return {"p256dh": encoded(public_bytes(self.key)), "auth": encoded(self.secret)}

    def decrypt(self, body: bytes) -> Any:
        """One record of aes128gcm: salt, record size, length of the key, the sender's key, what is encrypted."""
        salt, sender = body[:SALT], body[SALT + 5 : SALT + 5 + KEY_LENGTH]
        assert body[SALT + 4] == KEY_LENGTH
        shared = self.key.exchange(ec.ECDH(), ec.EllipticCurvePublicKey.from_encoded_point(CURVE, sender))
        given = derive(shared, self.secret, b"WebPush: info\0" + public_bytes(self.key) + sender, 32)
        key = derive(given, salt, b"Content-Encoding: aes128gcm\0", 16)
        nonce = derive(given, salt, b"Content-Encoding: nonce\0", 12)
        padded = AESGCM(key).decrypt(nonce, body[SALT + 5 + KEY_LENGTH :], None).rstrip(b"\0")
        assert padded[-1:] == b"\x02"  # the last record
        return json.loads(padded[:-1])


def derive(secret: bytes, salt: bytes, context: bytes, length: int) -> bytes:
    return HKDF(hashes.SHA256(), length, salt, context).derive(secret)


def signed_claims(authorization: str) -> tuple[str, dict[str, Any]]:
    """The sender's key in a request, and the claims that it has signed (RFC 8292)."""
    scheme, _, rest = authorization.partition(" ")
    parts = dict(each.strip().split("=", 1) for each in rest.split(","))
    head, claims, signature = parts["t"].split(".")
    raw = decoded(signature)
    whole = encode_dss_signature(int.from_bytes(raw[:32]), int.from_bytes(raw[32:]))
    sender = ec.EllipticCurvePublicKey.from_encoded_point(CURVE, decoded(parts["k"]))
    sender.verify(whole, f"{head}.{claims}".encode(), ec.ECDSA(hashes.SHA256()))
    assert (scheme, json.loads(decoded(head))["alg"]) == ("vapid", "ES256")
    return parts["k"], json.loads(decoded(claims))
