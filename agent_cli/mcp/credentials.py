"""The logins to servers: a file for each, readable by the user alone, that holds for one address under its terms.

A declaration that leads elsewhere, or names another client, finds nothing here. Beside the logins stands a mark for
each server that answered that it wants one, so that it can be named without being asked again.

The terms of a login, as `oauth` in a server's declaration says them, and which addresses a login may use.
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
from agent_tools.fs.private import private_folder, write_whole
from agent_tools.fs.safe_read import open_regular, read_regular
from agent_tools.record import DecodeError, Value, from_json, to_json
from agent_tools.text import shorten

# The spelling of .mcp.json, in every file.
_KINDS: dict[str, type] = {
    "clientId": str,
    "clientSecret": str,
    "callbackPort": int,
    "authServerMetadataUrl": str,
    "scopes": str,
}


def mistake_in_terms(server: McpServer) -> str:
    """What is wrong with `oauth` in a declaration; "" for nothing."""
    said: dict[str, Any] = server.oauth
    if said and not server.url:
        return "oauth, which is for a server with a url"
    for key, value in said.items():
        if key not in _KINDS:
            return f"oauth.{shorten(key, 40)}, which means nothing here"
        if type(value) is not _KINDS[key]:
            return f"an oauth.{key} that is no {'text' if _KINDS[key] is str else 'number'}"
    if not 0 < said.get("callbackPort", 1) < 65536:
        return "an oauth.callbackPort that is no port"
    if not said.get("scopes", "").isprintable() or '"' in said.get("scopes", ""):
        return "oauth.scopes with characters that a scope cannot have"
    if not said.get("authServerMetadataUrl", "https://").startswith(("https://", "http://", "${")):
        return "an oauth.authServerMetadataUrl that is none of http"
    return ""


def has_own_key(server: McpServer) -> bool:
    """Whether the declaration brings its own Authorization header, which then counts instead of a login."""
    return any(name.lower() == "authorization" for name in server.headers)


def is_secure_url(address: str, server_url: str) -> bool:
    """Whether what belongs to a login may go to an address: by https, or inside this machine for a server on it."""
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


LIMIT = 1 << 20


class Login(Value):
    """What one login gave, and what it holds for. client, resource and metadata: as the servers said them. expires:
    seconds since 1970, 0 where that is not known.
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
        """The server's address."""
        return self.key[0]


def key_of(server: McpServer) -> tuple[str, ...]:
    """What a login holds for: the address of the server, the client, and where the metadata are."""
    return server.url, *(str(server.oauth.get(name, "")) for name in ("clientId", "authServerMetadataUrl"))


class TokenStoreError(Exception):
    """A login could not be kept; the message says why."""


class Logins:
    """The folder of logins. Servers are those whose declarations are filled in."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def _path(self, server: McpServer, ending: str = ".json") -> Path:
        return self.folder / f"{crc32(json.dumps(key_of(server)).encode()):08x}{ending}"

    def of(self, server: McpServer) -> Login | None:
        """The login for this server; None where there is none that counts."""
        if not server.url or has_own_key(server):
            return None
        try:
            login: Login = from_json(Login, json.loads(read_regular(self._path(server), LIMIT)))
        except (OSError, ValueError, RecursionError, DecodeError):
            return None
        return login if login.key == key_of(server) else None

    def keep(self, server: McpServer, login: Login) -> None:
        """Keep a login in place of the one before. Raises TokenStoreError."""
        try:
            self._make_folder()
            write_whole(self._path(server), json.dumps(to_json(login)).encode("ascii"))
        except OSError as error:
            raise TokenStoreError(f"{self.folder}: {error.strerror or error}") from None
        self.mark(server, wanted=False)

    def forget(self, server: McpServer) -> bool:
        """Remove the login of a server; whether there was one. Raises TokenStoreError where it stays."""
        self.mark(server, wanted=False)
        try:
            self._path(server).unlink()
        except FileNotFoundError:
            return False
        except OSError as error:
            raise TokenStoreError(f"{self.folder}: {error.strerror or error}") from None
        return True

    def mark(self, server: McpServer, *, wanted: bool) -> None:
        """Remember whether the server wants a login. Without a place for it, nothing is remembered."""
        path = self._path(server, ".wanted")
        with suppress(OSError):
            if wanted:
                self._make_folder()
                os.close(open_regular(path, os.O_WRONLY | os.O_CREAT))
            else:
                path.unlink()

    def state(self, server: McpServer) -> Literal["", "there", "wanted"]:
        """Whether the server, when it was last asked, wanted a login, or else there is one."""
        if not server.url or has_own_key(server):
            return ""
        # os.path and not Path, whose method raises in a closed folder.
        if os.path.exists(self._path(server, ".wanted")):  # noqa: PTH110
            return "wanted"
        return "there" if self.of(server) is not None else ""

    def _make_folder(self) -> None:
        private_folder(self.folder)
        self.folder.chmod(0o700)

    @contextmanager
    def exclusive(self, server: McpServer) -> Iterator[bool]:
        """Whether nobody else, in any process, renews this login meanwhile."""
        import fcntl

        try:
            descriptor = open_regular(self._path(server, ".lock"), os.O_WRONLY | os.O_CREAT)
        except OSError:
            # Where nothing can be written, nobody renews anything either.
            yield True
            return
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            alone = True
        except OSError:
            alone = False
        try:
            yield alone
        finally:
            os.close(descriptor)


def wants_login(name: str, subject: str = "") -> str:
    """The one sentence in which such a server is named, by its name or another subject."""
    return f"{subject or name} wants a login: agent mcp login {name}"
