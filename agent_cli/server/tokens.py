"""Bearer tokens: names, roles, and who may do what. Stored as hashes in `<state>/serve/tokens.json`, for the user only.

A role includes those before it: `read` sees, `decide` also decides what waits, `start` also starts and steers work.
"""

from __future__ import annotations

import hmac
import json
import re
import secrets
from collections import deque
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Literal, get_args

from agent_cli.core.place import UsageError
from agent_cli.server.tasks import now
from agent_tools.fs.safe_files import private_folder, read_regular, write_whole
from agent_tools.record import DecodeError, Value, from_json, to_json

Role = Literal["read", "decide", "start"]
ROLES: tuple[Role, ...] = get_args(Role)
# The name of the token that the first start makes.
OWNER = "owner"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._@-]{0,39}")
_LARGEST = 1 << 20


class AccessToken(Value, tag="Token"):
    """A token without its secret. digest: SHA-256 of the secret, in hexadecimal."""

    name: str
    role: Role
    digest: str
    created: str

    def may(self, role: Role) -> bool:
        """Return True if the token's role includes this one."""
        return ROLES.index(self.role) >= ROLES.index(role)


class AccessTokenStore:
    """The tokens of a state folder. A change counts for a running server at its next request."""

    def __init__(self, state: Path) -> None:
        self.path = state / "serve" / "tokens.json"
        self._known: tuple[tuple[int, int], tuple[AccessToken, ...]] = ((-1, -1), ())

    def all(self) -> tuple[AccessToken, ...]:
        """Return the tokens. Raises UsageError if the file cannot be read."""
        try:
            stat = self.path.stat()
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise UsageError(f"The tokens cannot be read: {error.strerror or error}.") from None
        mark = stat.st_mtime_ns, stat.st_size
        if mark != self._known[0]:
            try:
                found: tuple[AccessToken, ...] = from_json(
                    tuple[AccessToken, ...], json.loads(read_regular(self.path, _LARGEST))
                )
            except (OSError, ValueError, DecodeError) as error:
                raise UsageError(f"The tokens cannot be read: {self.path} is damaged ({error}).") from None
            self._known = mark, found
        return self._known[1]

    def add(self, name: str, role: str) -> str:
        """Add a token; return its secret, which is stored nowhere. Raises UsageError."""
        if role not in ROLES:
            raise UsageError(f"{role} is not a role; the roles are: {', '.join(ROLES)}.")
        if not _NAME.fullmatch(name):
            raise UsageError("A token's name has letters, digits, spaces and . _ @ -, 40 at most.")
        tokens = self.all()
        if any(token.name == name for token in tokens):
            raise UsageError(f"There is a token named {name} already: agent serve token revoke {name}")
        secret = secrets.token_urlsafe(32)
        self._write((*tokens, AccessToken(name, next(r for r in ROLES if r == role), _digest(secret), now())))
        return secret

    def revoke(self, name: str) -> None:
        """Remove a token. Raises UsageError."""
        tokens = self.all()
        left = tuple(token for token in tokens if token.name != name)
        if left == tokens:
            known = ", ".join(token.name for token in tokens) or "none"
            raise UsageError(f"There is no token named {name}; there are: {known}.")
        self._write(left)

    def find(self, secret: str) -> AccessToken | None:
        """Return the token with this secret, in a time that does not depend on it; None if there is none.

        Raises UsageError.
        """
        digest, found = _digest(secret), None
        for token in self.all():
            if hmac.compare_digest(token.digest, digest):
                found = token
        return found

    def _write(self, tokens: tuple[AccessToken, ...]) -> None:
        try:
            private_folder(self.path.parent)
            write_whole(self.path, json.dumps(to_json(tokens), indent=1).encode("ascii"))
        except OSError as error:
            raise UsageError(f"The tokens cannot be written: {error.strerror or error}.") from None


def _digest(secret: str) -> str:
    return sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()


class FailureLimit:
    """Counts failed tokens by address: beyond so many in a minute, further ones are refused without a look."""

    def __init__(self, clock: Callable[[], float], most: int = 20, seconds: float = 60.0) -> None:
        self._clock, self._most, self._seconds = clock, most, seconds
        self._failed: dict[str, deque[float]] = {}

    def wait(self, address: str) -> float:
        """Return the seconds until another attempt counts; 0 if it does now."""
        times = self._recent(address)
        return max(0.0, times[0] + self._seconds - self._clock()) if len(times) >= self._most else 0.0

    def failed(self, address: str) -> None:
        """Count a failed attempt."""
        times = self._recent(address)
        times.append(self._clock())
        self._failed[address] = times
        if len(self._failed) > 10_000:
            self._failed = {a: t for a in list(self._failed) if (t := self._recent(a))}

    def _recent(self, address: str) -> deque[float]:
        times = self._failed.get(address, deque(maxlen=self._most))
        while times and times[0] <= self._clock() - self._seconds:
            times.popleft()
        return times
