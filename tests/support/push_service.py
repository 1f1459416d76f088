"""A push service over TLS, and browsers that subscribe to it and read what it brings."""

from __future__ import annotations

import datetime
import hmac
import ipaddress
import json
import os
import ssl
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Queue
from threading import Thread
from types import TracebackType
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from agent_cli.extras.server.web_push import encode

_SECONDS = 60


class PushServer:
    """The service. certificate: to trust it by."""

    def __init__(self, folder: Path) -> None:
        self.browsers: dict[str, Browser] = {}
        self.certificate = folder / "cert.pem"
        key_file = folder / "key.pem"
        _make_certificate(self.certificate, key_file)
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                browser = service.browsers[self.path]
                status = browser.statuses.pop(0) if browser.statuses else 201
                if status == 201:
                    browser.came.put(({name.lower(): text for name, text in self.headers.items()}, body))
                self.send_response(status)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, key_file)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.origin = f"https://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> PushServer:
        Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()

    @staticmethod
    def allow(home: Path) -> None:
        """Let a server whose settings are in a home push to this machine."""
        home.mkdir(exist_ok=True)
        (home / ".agentrc").write_text('[web]\nallow_private = ["127.0.0.1"]\n', "utf-8")


class Browser:
    """A browser's subscription. statuses: what its service answers first. came: headers and body of each message."""

    def __init__(self, service: PushServer, statuses: list[int] | None = None) -> None:
        self._key, self._secret = ec.generate_private_key(ec.SECP256R1()), os.urandom(16)
        path = f"/push/{os.urandom(9).hex()}"
        self.endpoint, self.statuses = f"{service.origin}{path}", statuses or []
        self.came: Queue[tuple[dict[str, str], bytes]] = Queue()
        service.browsers[path] = self

    def subscription(self) -> dict[str, str]:
        """Return what the page sends to the server."""
        return {"endpoint": self.endpoint, "p256dh": encode(_point(self._key)), "auth": encode(self._secret)}

    def receive(self) -> tuple[dict[str, str], dict[str, Any]]:
        """Return headers and content of the next message (RFC 8291, section 3.4)."""
        headers, body = self.came.get(timeout=_SECONDS)
        salt, sender, sealed = body[:16], body[21:86], body[86:]
        assert (int.from_bytes(body[16:20], "big"), body[20]) == (4096, 65) and len(body) <= 4096
        shared = self._key.exchange(ec.ECDH(), ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), sender))
        material = _derive(self._secret, shared, b"WebPush: info\0" + _point(self._key) + sender, 32)
        content = _derive(salt, material, b"Content-Encoding: aes128gcm\0", 16)
        nonce = _derive(salt, material, b"Content-Encoding: nonce\0", 12)
        return headers, json.loads(AESGCM(content).decrypt(nonce, sealed, None).rstrip(b"\0").removesuffix(b"\x02"))


def _derive(salt: bytes, material: bytes, info: bytes, size: int) -> bytes:
    return hmac.digest(hmac.digest(salt, material, "sha256"), info + b"\x01", "sha256")[:size]


def _point(key: ec.EllipticCurvePrivateKey) -> bytes:
    form = serialization.PublicFormat.UncompressedPoint
    return key.public_key().public_bytes(serialization.Encoding.X962, form)


def _make_certificate(certificate: Path, key_file: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "push")])
    now = datetime.datetime.now(datetime.UTC)
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
        .serial_number(1).not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=2)).add_extension(address, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True).sign(key, hashes.SHA256())
    )  # fmt: skip
    certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    form = serialization.PrivateFormat.PKCS8
    key_file.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))
