"""Web Push: the key of a server (VAPID, RFC 8292), and encrypted messages (RFC 8188 and 8291).

`cryptography` (Apache-2.0 or BSD-3-Clause, 16 MB) comes with the MCP SDK. The first push imports it, in 30 ms.
pywebpush would bring two more HTTP clients (requests, aiohttp) for the lines below.
"""

from __future__ import annotations

import hmac
import json
import os
from base64 import urlsafe_b64decode, urlsafe_b64encode

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, utils
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from agent_tools.net.urls import Url

_RECORD_BYTES = 4096
# What a record holds besides the text: salt, size, key, padding mark and tag.
MAX_TEXT_BYTES = _RECORD_BYTES - 16 - 4 - 1 - 65 - 1 - 16
_TOKEN_SECONDS = 12 * 3600


def encode(data: bytes) -> str:
    """Return bytes as base64url without padding."""
    return urlsafe_b64encode(data).decode("ascii").rstrip("=")


def decode(text: str) -> bytes:
    """Return the bytes of base64url text. Raises ValueError."""
    return urlsafe_b64decode(text.rstrip("=") + "=" * (-len(text.rstrip("=")) % 4))


def new_key() -> str:
    """Return a new private key."""
    return encode(ec.generate_private_key(ec.SECP256R1()).private_numbers().private_value.to_bytes(32, "big"))


def public_key(key: str) -> str:
    """Return the public key of a private one, as browsers take it."""
    return encode(_point(_private(key)))


def is_public_key(text: str) -> bool:
    """Return True for a point on the curve, uncompressed."""
    try:
        ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), data := decode(text))
    except ValueError:
        return False
    return len(data) == 65


def authorization(key: str, endpoint: Url, contact: str, now: float) -> str:
    """Return the header that tells a push service who sends. contact: an address of the sender."""
    claims = {"aud": f"{endpoint.scheme}://{endpoint.authority}", "exp": int(now) + _TOKEN_SECONDS, "sub": contact}
    parts = [encode(json.dumps(part).encode()) for part in ({"typ": "JWT", "alg": "ES256"}, claims)]
    signed = _private(key).sign(".".join(parts).encode(), ec.ECDSA(hashes.SHA256()))
    signature = b"".join(number.to_bytes(32, "big") for number in utils.decode_dss_signature(signed))
    return f"vapid t={'.'.join(parts)}.{encode(signature)}, k={public_key(key)}"


def encrypt(text: bytes, receiver: str, secret: str, *, key: str = "", salt: bytes = b"") -> bytes:
    """Return a text of at most MAX_TEXT_BYTES as the one record that only a browser can read.

    receiver, secret: its `p256dh` and `auth`. key, salt: used once, and new by default.
    """
    own, salt, theirs = _private(key or new_key()), salt or os.urandom(16), decode(receiver)
    shared = own.exchange(ec.ECDH(), ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), theirs))
    material = _derive(decode(secret), shared, b"WebPush: info\0" + theirs + _point(own), 32)
    content = _derive(salt, material, b"Content-Encoding: aes128gcm\0", 16)
    nonce = _derive(salt, material, b"Content-Encoding: nonce\0", 12)
    head = salt + _RECORD_BYTES.to_bytes(4, "big") + bytes([65]) + _point(own)
    return head + AESGCM(content).encrypt(nonce, text + b"\x02", None)


def _derive(salt: bytes, material: bytes, info: bytes, size: int) -> bytes:
    """Derive a key of up to 32 bytes (HKDF, RFC 5869)."""
    return hmac.digest(hmac.digest(salt, material, "sha256"), info + b"\x01", "sha256")[:size]


def _private(key: str) -> ec.EllipticCurvePrivateKey:
    return ec.derive_private_key(int.from_bytes(decode(key), "big"), ec.SECP256R1())


def _point(key: ec.EllipticCurvePrivateKey) -> bytes:
    form = serialization.PublicFormat.UncompressedPoint
    return key.public_key().public_bytes(serialization.Encoding.X962, form)
