"""The logins to servers: a file for each, readable by the user alone, that holds for one address under its terms.

A declaration that leads elsewhere, or names another client, finds nothing here. Beside the logins stands a mark for
each server that answered that it wants one, so that it can be named without being asked again.
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
from agent_cli.extensions.mcp.terms import has_own_key
from agent_tools.private import private_folder, write_whole
from agent_tools.regular import open_regular, read_regular
from agent_tools.values import DecodeError, Value, from_plain, to_plain

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
            login: Login = from_plain(Login, json.loads(read_regular(self._path(server), LIMIT)))
        except (OSError, ValueError, RecursionError, DecodeError):
            return None
        return login if login.key == key_of(server) else None

    def keep(self, server: McpServer, login: Login) -> None:
        """Keep a login in place of the one before. Raises TokenStoreError."""
        try:
            self._make_folder()
            write_whole(self._path(server), json.dumps(to_plain(login)).encode("ascii"))
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
    def alone(self, server: McpServer) -> Iterator[bool]:
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
