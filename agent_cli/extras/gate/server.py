"""The process that decides calls for `client`, in a fork for each. Run as `python -m agent_cli.extras.gate.server`.

It ends after a time without calls, and when another process, or nothing, is at its address.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import sys
import time
from contextlib import suppress
from importlib import import_module
from pathlib import Path

from agent_cli.extras.gate import decide
from agent_tools.fs.safe_files import private_folder
from agent_tools.process import hardening

_IDLE_SECONDS, _LOOK_SECONDS = 300.0, 5.0
_MAX_REQUEST_BYTES = 16 << 20
# What decisions load when they first need it.
_PRELOADED = """
agent_cli.config.claude_settings agent_cli.kernel.session.restore agent_cli.policy.command_reads
agent_cli.policy.commands agent_cli.policy.explain agent_cli.policy.impact agent_cli.policy.masked_lines
agent_cli.policy.masks agent_cli.policy.sandbox_needs agent_cli.policy.destructive agent_cli.policy.lost_files
agent_cli.policy.programs.table agent_cli.policy.programs.reads agent_cli.policy.programs.git_reads
agent_cli.undo.recorder agent_cli.undo.prune agent_cli.undo.undo agent_tools.edit.apply_patch agent_tools.edit.diff
agent_tools.edit.edit agent_tools.fs.encoding agent_tools.read agent_tools.search.glob agent_tools.search.grep
agent_tools.search.ls agent_tools.shell.bash agent_tools.web.fetch agent_tools.write
"""


def answer_hooks(path: str) -> None:
    """Decide calls until none comes for a while."""
    private_folder(Path(path).parent)
    fresh = f"{path}.{os.getpid()}"
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(fresh)
    listener.listen(64)
    os.rename(fresh, path)  # noqa: PTH104 - text is what sockets take
    own = os.stat(path).st_ino  # noqa: PTH116
    for name in _PRELOADED.split():
        import_module(name)
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel buries the forks
    listener.settimeout(_LOOK_SECONDS)
    last = time.monotonic()
    while time.monotonic() - last < _IDLE_SECONDS:
        try:
            if os.stat(path).st_ino != own:  # noqa: PTH116
                return
            connection, _ = listener.accept()
        except TimeoutError:
            continue
        except OSError:
            return
        last = time.monotonic()
        if os.fork() == 0:
            listener.close()
            os._exit(_answer(connection))
        connection.close()
    with suppress(OSError):
        os.unlink(path)  # noqa: PTH108


def _answer(connection: socket.socket) -> int:
    """Decide one call, with the streams, folder and variables of the client."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    connection.settimeout(None)
    try:
        head, files, _, _ = socket.recv_fds(connection, 4, 3)
        left = int.from_bytes(head, "big")
        if len(head) != 4 or len(files) != 3 or left > _MAX_REQUEST_BYTES:
            return 1
        data = b""
        while len(data) < left and (piece := connection.recv(left - len(data))):
            data += piece
        words, cwd, env = json.loads(data.decode("utf-8", "surrogateescape"))
        for number, file in enumerate(files):
            os.dup2(file, number)
            os.close(file)
        os.chdir(cwd)
        os.environ.clear()
        os.environ.update(env)
        time.tzset()
        decide.watched.append(connection.fileno())
        code = decide.main(words)
        sys.stdout.flush()
        sys.stderr.flush()
        connection.send(bytes([code]))
    except SystemExit:
        return 2
    except Exception:  # noqa: BLE001 - the client gets no answer, and refuses the call
        return 1
    return 0


if __name__ == "__main__":
    hardening.protect()
    answer_hooks(sys.argv[1])
