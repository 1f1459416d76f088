"""Start the program by forking a process that has imported it, which takes a sixth of the time.

`start` is `subprocess.Popen` for `python -m agent_cli ARGUMENTS`: a process of its own with its own folder,
environment, streams and session, that is waited for and killed as any. What comes before `main()`, Python's own start
and the imports, it shares with the others; of what Python does at the end, threads are waited for, `atexit` is run, and
the streams are written out. A test of all that (of imports, /proc/PID/environ, the command line) starts the program as
a user does; with STARTS=exec every test does, as in `make versions`.

`start_worker` is the same for the process in which LiteLLM runs, whose imports take seconds; `mcp_command` is the
command of a server with the MCP SDK, which takes one. The workers of `agent serve` are forked too.

The workers of pytest-xdist share the processes that are forked: FORK_SERVERS names a folder with a socket for each.
"""

from __future__ import annotations

import atexit
import fcntl
import gc
import importlib
import json
import os
import pkgutil
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import termios
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from io import TextIOWrapper
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from zlib import crc32

ROOT = Path(__file__).resolve().parents[2]
SHARED = "FORK_SERVERS"
# What Python and the C library read before the program does. Of these only the language may be set.
_READ_AT_START = ("PYTHON", "LC_", "LD_", "MALLOC_", "TZ")
PYTHONPATH = f"{ROOT}{os.pathsep}{ROOT / 'tools'}"
_PROGRAM, _WORKER = "agent_cli", "agent_cli.models.litellm_worker"
_MCP_SERVER = "tests.support.mcp.full_server"
_TASK_WORKER, _POOL = "agent_cli.extras.server.worker", "agent_cli.extras.server.pool"
# Imported before the fork: all of the program, and what a session loads of libraries by and by.
_OF_THE_PROGRAM = (
    "anyio._backends._asyncio",
    "anyio.streams.tls",
    "concurrent.futures.thread",
    "ctypes",
    "glob",
    "jsonschema",
    "markdown_it",
    "prompt_toolkit.input.vt100",
    "prompt_toolkit.key_binding.bindings.search",
    "pygments.lexers.python",
    "pygments.lexers.shell",
    "tomlkit",
    "tomllib",
)
# Dask, which one command uses and takes a second, and which reads its settings from the environment.
_NOT_BEFORE = ("agent_cli.extras.batch.cluster", "agent_cli.extras.batch.cluster")
_OF_THE_WORKER = (
    _WORKER,
    "litellm",
    "litellm.llms.anthropic.chat.transformation",
    "litellm.llms.bedrock.chat.converse_transformation",
    "litellm.llms.vertex_ai.gemini.vertex_and_google_ai_studio_gemini",
    # What the first request to a provider loads.
    "boto3",
    "httpcore",
    "litellm.responses.mcp.chat_completions_handler",
    "openai.lib.streaming.chat",
    "openai.resources.chat",
    "requests",
)
# By the module that is run, and the language, which Python reads at its start.
_servers: dict[tuple[str, str | None], _Server | None] = {}


def start(
    args: Sequence[str], cwd: Path, env: dict[str, str], *, terminal: bool = False, **popen: Any
) -> subprocess.Popen[bytes]:
    """Start `agent ARGS`.

    terminal: standard input becomes the terminal of a new session. popen: of `subprocess.Popen`, but no preexec_fn.
    The first start with a language is one by exec, and those with settings of Python are.
    """
    command = [sys.executable, "-m", "agent_cli", *args]
    popen["start_new_session"] = popen.get("start_new_session", False) or terminal
    kind = (_PROGRAM, env.get("LANG"))
    set_by = {name: value for name, value in env.items() if name.startswith(_READ_AT_START)}
    odd = set_by != {"PYTHONPATH": PYTHONPATH} or _is_by_exec()
    if odd or (kind not in _servers and SHARED not in os.environ):
        if not odd:
            _servers[kind] = None
        return subprocess.Popen(command, cwd=cwd, env=env, preexec_fn=_own_terminal if terminal else None, **popen)
    return _Forked(kind, _PROGRAM, command, args, terminal=terminal, cwd=cwd, env=env, **popen)


def start_worker(command: list[str], env: dict[str, str], **popen: Any) -> subprocess.Popen[bytes]:
    """Start the process for LiteLLM, whose command is given, in a session of its own."""
    popen["start_new_session"] = True
    if _is_by_exec():
        return subprocess.Popen(command, env=env, **popen)
    return _Forked((_WORKER, env.get("LANG")), _WORKER, command, [], cwd=Path.cwd(), env=env, **popen)


def mcp_command() -> list[str]:
    """The command that starts `full_server.py`; its arguments may follow."""
    if _is_by_exec():
        return [sys.executable, str(Path(__file__).with_name("mcp") / "full_server.py")]
    return _joined(_MCP_SERVER, os.environ.get("LANG"))


def program_command(env: dict[str, str]) -> list[str]:
    """The command that starts `agent` for a shell with this environment; its arguments may follow."""
    if _is_by_exec():
        return [sys.executable, "-m", "agent_cli"]
    return _joined(_PROGRAM, env.get("LANG"))


def _joined(module: str, language: str | None) -> list[str]:
    server = _server(module, language)
    return [sys.executable, "-I", "-S", str(Path(__file__).with_name("joined_fork.py")), str(server.path), module]


def _server(module: str, language: str | None) -> _Server:
    kind = (module, language)
    server = _servers.get(kind)
    if server is None or not server.lives:
        server = _servers[kind] = _Server(*kind)
    return server


def _is_by_exec() -> bool:
    return _mounts() != _MOUNTS or os.environ.get("STARTS") == "exec"


def _mounts() -> str:
    """Which file systems this process sees; empty where all see the same."""
    with suppress(OSError):
        return str(Path("/proc/self/ns/mnt").readlink())
    return ""


# Without them nothing is forked: elsewhere a fork of a process with threads of the system's own is not safe.
_MOUNTS = _mounts() if sys.platform == "linux" else "none"


def _own_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


class _Server:
    """The process that is forked, as the tests see it. It ends when they do, or all that share it."""

    def __init__(self, module: str, language: str | None, path: Path | None = None) -> None:
        self._control = socket.socket(socket.AF_UNIX)
        if path:
            self._control.connect(str(path))
            return
        folder = os.environ.get(SHARED) or _own_folder()
        # Tests of a copy of the repository run its program.
        self.path = path = Path(folder, f"{module.rpartition('.')[2]}-{language}-{crc32(os.fsencode(ROOT)):08x}")
        with _locked(folder):
            try:
                self._control.connect(str(path))
            except OSError:
                path.unlink(missing_ok=True)
                _start_server(module, language, path)
                self._control.connect(str(path))

    @property
    def lives(self) -> bool:
        """True while it can be forked: a test may have killed it with a whole group of processes."""
        return not select.select([self._control], [], [], 0)[0]

    def fork(self, request: dict[str, Any], streams: Sequence[int]) -> socket.socket:
        """A connection on which the process ID comes, and the status once it has ended."""
        ours, theirs = socket.socketpair()
        with theirs:
            socket.send_fds(self._control, [b"."], [theirs.fileno(), *streams])
        ours.sendall(json.dumps(request).encode())
        ours.shutdown(socket.SHUT_WR)
        return ours


def _start_server(module: str, language: str | None, path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen(64)
        env = {k: v for k, v in os.environ.items() if k in ("PATH", "HOME") or k.startswith("COVERAGE_")}
        env |= {"PYTHONPATH": PYTHONPATH} | ({} if language is None else {"LANG": language})
        # -P: as in `python -m agent_cli`, the working directory is not on the import path.
        command = [sys.executable, "-P", "-m", "tests.support.fork_server", module, str(listener.fileno()), str(path)]
        process = subprocess.Popen(
            command, cwd=os.sep, env=env, pass_fds=[listener.fileno()], start_new_session=True, stdin=subprocess.DEVNULL
        )
        # It is nobody's child to wait for: it may outlive those that began it.
        process.returncode = 0


@cache
def _own_folder() -> str:
    folder, owner = tempfile.mkdtemp(prefix="fork-"), os.getpid()
    atexit.register(lambda: os.getpid() == owner and shutil.rmtree(folder, ignore_errors=True))
    return folder


@contextmanager
def _locked(folder: str) -> Iterator[None]:
    with open(os.path.join(folder, "lock"), "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


class _Forked(subprocess.Popen[bytes]):
    """A process that the server has forked: its parent is the server, which says how it has ended."""

    def __init__(
        self,
        kind: tuple[str, str | None],
        module: str,
        command: list[str],
        args: Sequence[str],
        *,
        terminal: bool = False,
        **popen: Any,
    ) -> None:
        self._kind = kind
        session = popen.pop("start_new_session")
        self._request = {"module": module, "args": [*args], "session": session, "terminal": terminal}
        super().__init__(command, **popen)

    def _execute_child(self, args: object, *given: Any) -> None:
        cwd, env = given[4:6]
        pipes = given[9:15]
        os.umask(mask := os.umask(0))
        request = {**self._request, "cwd": os.fsdecode(Path(cwd).absolute()), "env": env, "umask": mask}
        # Standard streams that are not given are those of the tests.
        streams = [own if fd == -1 else fd for own, fd in enumerate((pipes[0], pipes[3], pipes[5]))]
        self._connection = _server(*self._kind).fork(request, streams)
        self._answers = self._connection.makefile("rb")
        process_id = self._answers.readline()
        if not process_id:  # the server has just been killed with a group of processes, or by the system
            self._connection = _server(*self._kind).fork(request, streams)
            self._answers = self._connection.makefile("rb")
            process_id = self._answers.readline()
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]
        self.pid = int(process_id)
        self._child_created = True

    def __del__(self, *_: Any) -> None:
        """Nothing is left behind to be waited for: the server has done it."""

    def _internal_poll(self, *_: Any, **__: Any) -> int | None:
        with suppress(subprocess.TimeoutExpired):
            self._wait(0)
        return self.returncode

    def _wait(self, timeout: float | None) -> int:
        if self.returncode is None:
            if not select.select([self._connection], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
            self.returncode = os.waitstatus_to_exitcode(int(self._answers.readline()))
            self._answers.close()
            self._connection.close()
        return self.returncode


def _serve(module: str, listener: socket.socket, path: Path) -> str:
    """Fork for each request, and return in the new process, with the module that it is to run.

    The server itself ends here when the tests have.
    """
    if module == _WORKER:
        # Read by LiteLLM when it is imported.
        os.environ.update(importlib.import_module(_WORKER).ENVIRONMENT)
    others = {_WORKER: _OF_THE_WORKER, _MCP_SERVER: (_MCP_SERVER, "anyio._backends._asyncio")}
    for name in others[module] if module in others else (*_modules_of_the_program(), *_OF_THE_PROGRAM):
        importlib.import_module(name)
    if module == _PROGRAM:
        sys.modules["agent_cli.cli.app"].build_command_tree()
        _compile_patterns()
    gc.collect()
    gc.freeze()
    # Those that ask, and by process those that wait for its end.
    controls: list[socket.socket] = []
    connections: dict[int, socket.socket] = {}

    def tell(*_: object) -> None:
        while connections:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return  # another signal has interrupted this between the next two lines
            if not pid:
                return
            with connections.pop(pid) as connection, suppress(OSError):
                connection.sendall(b"%d\n" % status)

    while True:
        ready = select.select([listener, *controls], [], [])[0]
        if listener in ready:
            controls.append(listener.accept()[0])
        for control in ready:
            if control is listener:
                continue
            byte, fds, _, _ = socket.recv_fds(control, 1, 4, socket.MSG_CMSG_CLOEXEC)
            if not byte:
                controls.remove(control)
                control.close()
                _end_if_unused(listener, controls, path)
                continue
            connection = socket.socket(fileno=fds[0])
            with connection.makefile("rb") as file:
                asked = file.read()
            if not asked.endswith(b"}"):  # who asked has been killed
                for fd in (connection.detach(), *fds[1:]):
                    os.close(fd)
                continue
            request = json.loads(asked)
            # A process that ends at once is one whose number is known here.
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
            apart, made = os.pipe()
            pid = os.fork()
            if not pid:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                # Never in the group of the server, which would be killed with it.
                (os.setsid if request["session"] else os.setpgrp)()
            os.close(made)
            if pid:
                # As `subprocess.Popen` returns: with the process in its session.
                os.read(apart, 1)
            os.close(apart)
            if pid:
                signal.signal(signal.SIGCHLD, tell)
                connections[pid] = connection
                with suppress(OSError):  # the test may have been ended meanwhile
                    connection.sendall(b"%d\n" % pid)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
            if not pid:
                for other in (listener, *controls, connection, *connections.values()):
                    other.close()
                _become(request, fds[1:])
                if module == _PROGRAM:
                    _fork_task_workers((module, request["env"].get("LANG")), path)
                return str(request["module"])
            for fd in fds[1:]:
                os.close(fd)


def _compile_patterns() -> None:
    """Compile what each process would compile by itself."""
    for name in _modules_of_the_program():
        for value in vars(sys.modules[name]).values():
            if type(value).__name__ == "LazyPattern":
                value.search  # noqa: B018 - compiles it


def _end_if_unused(listener: socket.socket, controls: list[socket.socket], path: Path) -> None:
    """End this process when nobody is connected to it, and nobody is about to be."""
    with suppress(FileNotFoundError), _locked(str(path.parent)):
        if controls or select.select([listener], [], [], 0)[0]:
            return
        path.unlink()
    if not controls:
        sys.exit()


def _modules_of_the_program() -> Iterator[str]:
    for package in ("agent_cli", "agent_tools"):
        path = importlib.import_module(package).__path__
        names = (m.name for m in pkgutil.walk_packages(path, f"{package}."))
        yield from (name for name in names if not name.endswith(".__main__") and name not in _NOT_BEFORE)


def _become(request: dict[str, Any], streams: list[int]) -> None:
    """Reset this process to the state of one that has just been started."""
    for own, fd in enumerate(streams):
        os.dup2(fd, own)
        os.close(fd)
    if request["terminal"]:
        _own_terminal()
    os.chdir(request["cwd"])
    os.umask(request["umask"])
    # Python sets this one itself, where the language is none.
    coerced = {name: value for name, value in os.environ.items() if name == "LC_CTYPE"}
    os.environ.clear()
    os.environ.update(coerced | request["env"])
    sys.argv[1:] = request["args"]
    sys.argv[0] = str(ROOT / "agent_cli" / "__main__.py")
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        sys.__dict__[name] = sys.__dict__[f"__{name}__"] = _stream(sys.__dict__[name], mode)


def _fork_task_workers(kind: tuple[str, str | None], path: Path) -> None:
    """Have `agent serve`, should this process be one, fork its workers of the server of which it is a fork itself."""

    def start_worker(command: list[str], **popen: Any) -> subprocess.Popen[bytes]:
        if kind not in _servers:
            _servers[kind] = _Server(*kind, path)
        return _Forked(kind, _TASK_WORKER, command, command[4:], **{**popen, "cwd": Path(popen["cwd"])})

    vars(sys.modules[_POOL])["subprocess"] = SimpleNamespace(Popen=start_worker, DEVNULL=subprocess.DEVNULL)


def _stream(before: TextIOWrapper, mode: str) -> TextIOWrapper:
    """A standard stream as Python makes it."""
    raw = open(before.fileno(), mode + "b", closefd=False)  # noqa: SIM115
    line = mode == "w" and (before.fileno() == 2 or raw.isatty())
    made = TextIOWrapper(raw, before.encoding, before.errors, newline="\n", line_buffering=line)
    made.mode = mode  # type: ignore[misc]
    return made


def _run(module: str) -> None:
    """Run the program or the worker. The process then ends at once: Python would take apart all that was imported,
    which takes twice as long as a short run."""
    main = importlib.import_module(f"{_PROGRAM}.__main__" if module == _PROGRAM else module).main
    try:
        main() if module != _TASK_WORKER else sys.exit(main(sys.argv[1]))
    except SystemExit as end:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        with suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(int(end.code or 0))
        raise


if __name__ == "__main__":
    _run(_serve(sys.argv[1], socket.socket(fileno=int(sys.argv[2])), Path(sys.argv[3])))
