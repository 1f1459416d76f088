"""Get a token from Google's application default credentials: the key of a service account, or a user's login.

Both are handled here without Google's libraries: a service account signs its request for a token, which takes one
modular power of its RSA key. Credentials of other kinds (workload identity, impersonation, the metadata server of a
machine at Google) work only with those libraries, through LiteLLM.
"""

from __future__ import annotations

import json
import time
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from agent_cli.kernel.results import Failure
from agent_cli.models.base import ModelError
from agent_cli.models.http_client import endpoint_url, model_error
from agent_tools.cancel import CancelToken
from agent_tools.fs.safe_files import read_regular
from agent_tools.net.http import HttpClient, Timeouts
from agent_tools.net.http_connection import HttpError

TOKEN_URL = "https://oauth2.googleapis.com/token"
SCOPE = "https://www.googleapis.com/auth/cloud-platform"
KINDS = ("service_account", "authorized_user")
_MAX_BYTES = 1 << 20
# ASN.1 for "a SHA-256 hash follows", which PKCS #1 requires before the hash.
_SHA256 = bytes.fromhex("3031300d060960864801650304020105000420")


class GoogleCredentials:
    """The credentials in a file. Raises ValueError for a file with another kind of credentials."""

    def __init__(self, path: Path) -> None:
        try:
            data = json.loads(read_regular(path, _MAX_BYTES))
        except OSError as error:
            raise ValueError(f"{path} cannot be read: {error.strerror}") from None
        except (ValueError, RecursionError):
            raise ValueError(f"{path} is not JSON") from None
        kind = data.get("type") if isinstance(data, dict) else None
        if kind not in KINDS:
            raise ValueError(f"{path} has credentials of the kind {kind!r}, which only LiteLLM reads")
        self.path = path
        self.project = str(data.get("project_id") or data.get("quota_project_id") or "")
        self._data: dict[str, Any] = data

    def token(self, cancel: CancelToken) -> str:
        """Request a new access token. Raises ModelError, or CancelledError."""
        url = str(self._data.get("token_uri") or TOKEN_URL)
        try:
            form = self._form(url)
        except (KeyError, ValueError, IndexError):
            raise ModelError(Failure("auth", f"The credentials in {self.path} are damaged.")) from None
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
        try:
            reply = HttpClient(Timeouts()).send(endpoint_url(url), headers, urlencode(form).encode(), cancel)
            try:
                status, body = reply.status, reply.read_all(_MAX_BYTES)
            finally:
                reply.close()
        except HttpError as error:
            raise model_error(error) from error
        try:
            answer = json.loads(body)
            if status == 200 and isinstance(token := answer["access_token"], str):
                return token
            why = str(answer.get("error_description") or answer.get("error"))[:200].rstrip(".")
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            why = f"HTTP {status}"
        if status >= 500 or status == 429:
            raise ModelError(Failure("network", f"Google sent no access token: {why}.", retryable=True), status=status)
        raise ModelError(
            Failure(
                "auth",
                f"Google refused the credentials in {self.path}: {why}. Log in again: gcloud auth application-default "
                "login.",
            ),
            status=status,
        )

    def _form(self, url: str) -> dict[str, str]:
        data = self._data
        if data["type"] == "authorized_user":
            names = ("client_id", "client_secret", "refresh_token")
            return {"grant_type": "refresh_token", **{name: str(data[name]) for name in names}}
        now = int(time.time())
        claims = {"iss": data["client_email"], "scope": SCOPE, "aud": url, "iat": now, "exp": now + 3600}
        header = {"alg": "RS256", "typ": "JWT", "kid": str(data.get("private_key_id") or "")}
        text = b".".join(_base64url(json.dumps(part).encode()) for part in (header, claims))
        signed = text + b"." + _base64url(_signature(text, str(data["private_key"])))
        return {"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer", "assertion": signed.decode()}


def find_credentials(env: Mapping[str, str]) -> Path | None:
    """Return the file of the application default credentials, or None."""
    if named := env.get("GOOGLE_APPLICATION_CREDENTIALS", "").strip():
        return Path(named)
    folder = env.get("CLOUDSDK_CONFIG", "").strip() or (f"{home}/.config/gcloud" if (home := env.get("HOME")) else "")
    path = Path(folder, "application_default_credentials.json") if folder else None
    return path if path is not None and path.is_file() else None


def _base64url(data: bytes) -> bytes:
    return urlsafe_b64encode(data).rstrip(b"=")


def _signature(text: bytes, pem: str) -> bytes:
    """Sign with RS256. Raises ValueError or IndexError for a damaged key."""
    der = b64decode("".join(line for line in pem.splitlines() if "-----" not in line), validate=True)
    values = _sequence(_value(der, 0)[0])
    if "BEGIN RSA" not in pem:
        # PKCS #8: version, algorithm, and the key of PKCS #1 in an octet string.
        values = _sequence(_value(values[2], 0)[0])
    modulus, exponent = int.from_bytes(values[1], "big"), int.from_bytes(values[3], "big")
    size = (modulus.bit_length() + 7) // 8
    if size < 128:
        raise ValueError("no RSA key")
    tail = b"\0" + _SHA256 + sha256(text).digest()
    padded = b"\0\1" + b"\xff" * (size - 2 - len(tail)) + tail
    return pow(int.from_bytes(padded, "big"), exponent, modulus).to_bytes(size, "big")


def _value(der: bytes, at: int) -> tuple[bytes, int]:
    """Return the content of the ASN.1 value at this offset, and where it ends."""
    length, start = der[at + 1], at + 2
    if length & 0x80:
        count = length & 0x7F
        length, start = int.from_bytes(der[start : start + count], "big"), start + count
    if start + length > len(der):
        raise ValueError("too short")
    return der[start : start + length], start + length


def _sequence(content: bytes) -> list[bytes]:
    values: list[bytes] = []
    at = 0
    while at < len(content):
        value, at = _value(content, at)
        values.append(value)
    return values
