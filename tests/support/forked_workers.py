"""The workers of pytest-xdist as forks of one process that has imported the test modules.

Each worker would import them by itself, which takes longer than all else of collection. pytest-xdist starts a worker as
`PYTHON -u -c LINE`, and gives it its work on standard input. PYTHON is `join` here: it hands its standard streams to
the process that is forked, and stays until that worker has ended, or is killed with it.
"""

from __future__ import annotations

import gc
import importlib
import os
import select
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from _pytest.assertion.rewrite import PYC_TAIL, get_cache_dir
from _pytest.config import _prepareconfig
from hypothesis.internal.conjecture.providers import _get_local_constants

from tests.support.fork_server import ROOT, SHARED

# More new modules than that are many.
_MANY = 50
# An interrupt is for the worker to answer, once it is there.
_JOIN = """
import signal, socket, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
with socket.socket(socket.AF_UNIX) as s:
    s.connect(sys.argv[1])
    socket.send_fds(s, [b"."], [0, 1, 2])
    s.recv(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit(int(s.recv(9) or b"1"))
"""


def fork_workers(config: pytest.Config, specs: Sequence[Any]) -> None:
    """Have workers that collect all tests forked, and let all share what they fork themselves."""
    folder = tempfile.TemporaryDirectory(prefix="tests-")
    config.add_cleanup(folder.cleanup)
    os.environ[SHARED] = folder.name
    if sys.platform != "linux" or config.args != config.getini("testpaths"):
        return
    join, path = Path(folder.name, "join.py"), Path(folder.name, "workers")
    join.write_text(_JOIN)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        command = [sys.executable, "-m", "tests.support.forked_workers", str(listener.fileno())]
        server = subprocess.Popen(command, cwd=ROOT, pass_fds=[listener.fileno()], stdin=subprocess.PIPE)
    config.add_cleanup(lambda: _end(server))
    for spec in specs:
        spec.python = shlex.join([sys.executable, "-I", "-S", str(join), str(path)])


def _end(server: subprocess.Popen[bytes]) -> None:
    server.kill()
    server.communicate()


def _serve(listener: socket.socket) -> None:
    """Fork a worker for each that joins, and return in it; end when standard input does."""
    interrupt = signal.signal(signal.SIGINT, signal.SIG_IGN)
    _import_tests()
    # By the file descriptor of the process.
    workers: dict[int, tuple[int, socket.socket]] = {}
    while True:
        joins = {joined: pid for pid, joined in workers.values()}
        for ready in select.select([0, listener, *workers, *joins], [], [])[0]:
            if ready == 0:
                sys.exit()
            if ready in workers:
                pid, joined = workers.pop(ready)
                os.close(ready)
                with joined, suppress(OSError):
                    joined.sendall(b"%d" % (os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) & 0xFF))
            elif ready in joins:
                # It was killed, as a worker is that does not end; it may have ended just now.
                if ready.fileno() >= 0:
                    os.kill(joins[ready], signal.SIGKILL)
            else:
                joined = listener.accept()[0]
                _, fds, _, _ = socket.recv_fds(joined, 1, 3)
                if not (pid := os.fork()):
                    for other in (listener, joined, *joins):
                        other.close()
                    signal.signal(signal.SIGINT, interrupt)
                    return _become(fds, list(workers))
                workers[os.pidfd_open(pid)] = (pid, joined)
                with suppress(OSError):
                    joined.sendall(b".")
                for fd in fds:
                    os.close(fd)


def _import_tests() -> None:
    gc.disable()
    # Assertions are rewritten while there is a configuration.
    config = _prepareconfig([], None)
    modules = {p: ".".join(p.relative_to(ROOT).with_suffix("").parts) for p in sorted(ROOT.glob("tests/**/test_*.py"))}
    if sum(map(_is_new, modules)) > _MANY and not sys.dont_write_bytecode:
        _import_by_parts(list(modules.values()))
    _import(modules.values())
    # Each worker would look through the program for constants by itself.
    _get_local_constants()
    config._ensure_unconfigure()
    gc.collect()
    gc.freeze()


def _is_new(path: Path) -> bool:
    """True if the assertions of a module have not been rewritten yet."""
    try:
        return (get_cache_dir(path) / f"{path.stem}{PYC_TAIL}").stat().st_mtime < path.stat().st_mtime
    except OSError:
        return True


def _import_by_parts(names: Sequence[str]) -> None:
    """Have all processors rewrite: in a fresh clone that takes longer than the imports."""
    count = os.cpu_count() or 1
    parts = []
    for number in range(count):
        if not (pid := os.fork()):
            _import(names[number::count])
            os._exit(0)
        parts.append(pid)
    for pid in parts:
        os.waitpid(pid, 0)


def _import(names: Iterable[str]) -> None:
    for name in names:
        # What cannot be imported, or skips itself, is reported when it is collected.
        with suppress(Exception, pytest.skip.Exception):
            importlib.import_module(name)


def _become(streams: Sequence[int], others: Sequence[int]) -> None:
    for other in others:
        os.close(other)
    for own, fd in enumerate(streams):
        os.dup2(fd, own)
        os.close(fd)


def _work() -> None:
    """Be what Python is with the options of pytest-xdist."""
    sys.argv = ["-c"]
    main = sys.modules["__main__"] = ModuleType("__main__")
    exec(eval(sys.stdin.readline()), main.__dict__)


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
    _work()
