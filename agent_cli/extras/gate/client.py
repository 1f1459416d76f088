"""The quick way to decide a call: a process that has everything loaded does it, in a fork for each call.

Python and the imports of a decision take longer than the decision. The process begins with the first call, reads all
settings again for each, and ends a while after the last one. Without it, and where it fails, the call is decided in
this process.
"""

from __future__ import annotations

import _socket as socket  # `socket` makes enumerations, which costs a third of the time
import json
import os
import sys
from binascii import crc32
from contextlib import suppress

from agent_cli import __version__
from agent_tools.lazy import lazy_imports

with lazy_imports():
    from agent_cli.extras.gate import decide
    from agent_cli.kernel.session import store
    from agent_tools.process import child

_LENGTH_BYTES = 4
# The longest address of a socket that all systems take.
_MAX_PATH_BYTES = 100


def main(words: list[str]) -> int:
    """Answer one hook; return the exit code. `--alone` decides in this process."""
    path = _socket_path()
    if "--alone" in words or len(os.fsencode(path)) > _MAX_PATH_BYTES:
        return decide.main([word for word in words if word != "--alone"])
    code = _pass_on(path, words)
    if code is None:
        _start(path)
        code = decide.main(words)
    return code


def _socket_path() -> str:
    """Return the socket of the process for this installation, user and state folder."""
    state = os.environ.get("AGENT_STATE_DIR") or str(store.state_folder(os.environ))
    changed = os.stat(os.path.join(os.path.dirname(__file__), "decide.py")).st_mtime_ns  # noqa: PTH116, PTH120
    key = crc32(os.fsencode(f"{sys.executable} {__version__} {changed}"))
    return os.path.join(state, "gate", f"{key:08x}.sock")


def _pass_on(path: str, words: list[str]) -> int | None:
    """Let the process decide; return the exit code, or None if there is none."""
    try:
        cwd = os.getcwd()  # noqa: PTH109 - costs pathlib
        request = json.dumps([words, cwd, dict(os.environ)]).encode("utf-8", "surrogateescape")
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.connect(path)
        descriptors = b"".join(number.to_bytes(4, sys.byteorder) for number in (0, 1, 2))
        length = len(request).to_bytes(_LENGTH_BYTES, "big")
        connection.sendmsg([length], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)])
        while request:
            request = request[connection.send(request) :]
        answered = connection.recv(1)
    except OSError:
        return None
    # If it has died, the input is used up, and the call is refused by this process.
    return answered[0] if answered else None


def _start(path: str) -> None:
    """Start the process for the next call."""
    command = [sys.executable, "-P", "-m", "agent_cli.extras.gate.server", path]
    nowhere = -3  # subprocess.DEVNULL
    with suppress(OSError):
        child.start_child(
            command, memory=None, brief=True, cwd="/", start_new_session=True, stdin=nowhere, stdout=nowhere,
            stderr=nowhere,
        )  # fmt: skip
