"""Store logins to servers: one file each, readable only by the user, bound to an address and a client.

A declaration with another address or client does not find the login. The same folder has a marker for each server that
demanded a login, so that it can be reported without contacting it again.

Also validates `oauth` in a server's declaration, and the addresses that login data may go to.
"""

from __future__ import annotations

import json
import os
from binascii import crc32
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

from agent_cli.config.schema import McpServer
from agent_tools.fs.safe_files import open_regular, private_folder, read_regular, write_atomic
from agent_tools.record import DecodeError, Value, from_json, to_json
from agent_tools.text import shorten

# Names as in .mcp.json, in every file.
_KINDS: dict[str, type] = {
    "clientId": str,
    "clientSecret": str,
    "callbackPort": int,
    "authServerMetadataUrl": str,
    "scopes": str,
}


def oauth_problem(server: McpServer) -> str:
    """Return what is wrong with `oauth` in a declaration; "" for nothing."""
    oauth: dict[str, Any] = server.oauth
    if oauth and not server.url:
        return "oauth, which is for a server with a url"
    for key, value in oauth.items():
        if key not in _KINDS:
            return f"oauth.{shorten(key, 40)}, which is not a known key"
        if type(value) is not _KINDS[key]:
            return f"an oauth.{key} that is not {'text' if _KINDS[key] is str else 'a number'}"
    if not 0 < oauth.get("callbackPort", 1) < 65536:
        return "an oauth.callbackPort that is not a port"
    if not oauth.get("scopes", "").isprintable() or '"' in oauth.get("scopes", ""):
        return "oauth.scopes with characters that a scope cannot have"
    if not oauth.get("authServerMetadataUrl", "https://").startswith(("https://", "http://", "${")):
        return "an oauth.authServerMetadataUrl that is not http"
    return ""


def has_auth_header(server: McpServer) -> bool:
    """Return True if the declaration has its own Authorization header, which takes precedence over a login."""
    return any(name.lower() == "authorization" for name in server.headers)


def is_secure_url(address: str, server_url: str) -> bool:
    """Return True if login data may go to an address: https, or loopback for a server on this machine."""
    if address.startswith("https://"):
        return True
    return _on_this_machine(address) and _on_this_machine(server_url)


def _on_this_machine(address: str) -> bool:
    from urllib.parse import urlsplit

    try:
        host = urlsplit(address).hostname or ""
    except ValueError:
        return False
    return address.startswith("http://") and (host in ("localhost", "::1") or _is_loopback(host))


def _is_loopback(host: str) -> bool:
    parts = host.split(".")
    return len(parts) == 4 and parts[0] == "127" and all(p.isascii() and p.isdigit() for p in parts)


MAX_BYTES = 1 << 20


class Login(Value):
    """A stored login.

    key: identifies what it is valid for; see `key_of`.
    tokens: as received from the authorization server.
    expires: seconds since the epoch; 0 if unknown.
    client: the registered client, as received.
    metadata: of the authorization server, as received.
    resource: metadata of the server, as received.
    """

    key: tuple[str, ...]
    tokens: dict[str, Any]
    expires: float
    client: dict[str, Any]
    metadata: dict[str, Any] | None = None
    resource: dict[str, Any] | None = None

    def __repr__(self) -> str:
        return f"Login({self.key!r}, ...)"

    @property
    def url(self) -> str:
        """The server's URL."""
        return self.key[0]


def key_of(server: McpServer) -> tuple[str, ...]:
    """Return the key of a server's login: the server's URL, the client, and the location of the metadata."""
    return server.url, *(str(server.oauth.get(name, "")) for name in ("clientId", "authServerMetadataUrl"))


class LoginStoreError(Exception):
    """A login could not be stored; the message says why."""


class LoginStore:
    """The directory of logins. Declarations passed in have their variables substituted."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def _path(self, server: McpServer, ending: str = ".json") -> Path:
        return self.folder / f"{crc32(json.dumps(key_of(server)).encode()):08x}{ending}"

    def find(self, server: McpServer) -> Login | None:
        """Return the login for this server; None if there is no valid one."""
        if not server.url or has_auth_header(server):
            return None
        try:
            login: Login = from_json(Login, json.loads(read_regular(self._path(server), MAX_BYTES)))
        except (OSError, ValueError, RecursionError, DecodeError):
            return None
        return login if login.key == key_of(server) else None

    def save(self, server: McpServer, login: Login) -> None:
        """Store a login, replacing the previous one. Raises LoginStoreError."""
        try:
            self._make_folder()
            write_atomic(self._path(server), json.dumps(to_json(login)).encode("ascii"))
        except OSError as error:
            raise LoginStoreError(f"{self.folder}: {error.strerror or error}") from None
        self.mark(server, wanted=False)

    def forget(self, server: McpServer) -> bool:
        """Remove the login of a server; return True if there was one. Raises LoginStoreError if it stays."""
        self.mark(server, wanted=False)
        try:
            self._path(server).unlink()
        except FileNotFoundError:
            return False
        except OSError as error:
            raise LoginStoreError(f"{self.folder}: {error.strerror or error}") from None
        return True

    def mark(self, server: McpServer, *, wanted: bool) -> None:
        """Record whether the server demands a login. Failures to write are ignored."""
        path = self._path(server, ".wanted")
        with suppress(OSError):
            if wanted:
                self._make_folder()
                os.close(open_regular(path, os.O_WRONLY | os.O_CREAT))
            else:
                path.unlink()

    def state(self, server: McpServer) -> Literal["", "stored", "wanted"]:
        """Return "wanted" if the server demanded a login when last contacted, "stored" if there is a login; else ""."""
        if not server.url or has_auth_header(server):
            return ""
        # os.path instead of Path, whose method raises in an unreadable directory.
        if os.path.exists(self._path(server, ".wanted")):  # noqa: PTH110
            return "wanted"
        return "stored" if self.find(server) is not None else ""

    def _make_folder(self) -> None:
        private_folder(self.folder)
        self.folder.chmod(0o700)

    @contextmanager
    def exclusive(self, server: McpServer) -> Iterator[bool]:
        """Lock a login against renewal in other processes; yield False if another process has the lock."""
        import fcntl

        try:
            descriptor = open_regular(self._path(server, ".lock"), os.O_WRONLY | os.O_CREAT)
        except OSError:
            # If nothing can be written, no process renews the login.
            yield True
            return
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            locked = True
        except OSError:
            locked = False
        try:
            yield locked
        finally:
            os.close(descriptor)


def login_message(name: str, subject: str = "") -> str:
    """Return the message about a server that needs a login. subject: replaces its name at the beginning."""
    return f"{subject or name} needs a login: agent mcp login {name}"
