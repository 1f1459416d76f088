"""Pair a device: a code that is shown once is exchanged for a token of the device's own."""

from __future__ import annotations

import json
import re
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from hmac import compare_digest
from pathlib import Path

from agent_cli import UsageError
from agent_cli.extras.server.guard import AccessTokenStore, Role
from agent_tools.fs.safe_files import changing, read_regular, write_atomic

CODE_SECONDS = 600.0
# Wrong codes after which the right one is void.
_MAX_WRONG = 10
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9 ._-]+")


class Pairing:
    """The one code that can be exchanged now; its hash is in a file of the state folder."""

    def __init__(self, state: Path) -> None:
        self._path, self._tokens = state / "serve" / "pairing.json", AccessTokenStore(state)

    def offer(self, role: Role) -> str:
        """Return a new code, which replaces any other. Raises UsageError."""
        code = secrets.token_urlsafe(16)
        with self._changing():
            self._write({"digest": _digest(code), "role": role, "expires": time.time() + CODE_SECONDS, "wrong": 0})
        return code

    def redeem(self, code: str, device: str) -> tuple[str, str] | None:
        """Return the name and the secret of a new token for the code, which is then void; None for a wrong code.

        Raises UsageError.
        """
        with self._changing():
            role = self._take(code)
        if not role:
            return None
        name = self._free_name(device)
        return name, self._tokens.add(name, role)

    def _take(self, code: str) -> str:
        """Return the role of the right code, which is then void; "" for a wrong one."""
        try:
            found = json.loads(read_regular(self._path, 1 << 12))
            right = compare_digest(str(found["digest"]), _digest(code)) and time.time() < float(found["expires"])
            wrong, role = int(found["wrong"]) + 1, str(found["role"])
        except (OSError, ValueError, LookupError, TypeError):
            return ""
        if right or wrong >= _MAX_WRONG:
            self._path.unlink()
        else:
            self._write(found | {"wrong": wrong})
        return role if right else ""

    def _free_name(self, device: str) -> str:
        wanted = _NOT_IN_A_NAME.sub(" ", device).strip(" ._-")[:30] or "phone"
        known = {token.name for token in self._tokens.all()}
        return next(name for at in range(1, 10_000) if (name := wanted if at == 1 else f"{wanted} {at}") not in known)

    @contextmanager
    def _changing(self) -> Iterator[None]:
        try:
            with changing(self._path):
                yield
        except OSError as error:
            raise UsageError(f"The pairing code cannot be stored: {error.strerror or error}.") from None

    def _write(self, fields: dict[str, object]) -> None:
        write_atomic(self._path, json.dumps(fields).encode("ascii"))


def _digest(code: str) -> str:
    return sha256(code.encode("utf-8", "surrogateescape")).hexdigest()
