"""A language server: started for the first file of its language, it runs until the session ends.

It finds problems, and answers questions about symbols. Servers that support `textDocument/diagnostic` are asked for
problems; the others publish them, and we wait for that.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from time import monotonic
from typing import Any
from urllib.parse import unquote

from agent_tools.diagnostics.checkers import LANGUAGES
from agent_tools.diagnostics.commands import MAX_MEMORY_BYTES
from agent_tools.diagnostics.parsers import Problem
from agent_tools.diagnostics.source import CheckFailedError, Launcher, ServerNotStartedError, Source
from agent_tools.fs.safe_files import read_regular
from agent_tools.process.child import kill_group, start_child
from agent_tools.process.reaper import marked
from agent_tools.record import Value
from agent_tools.results import ToolError
from agent_tools.sandbox.conditions import Wrapped
from agent_tools.shell.strays import end_strays
from agent_tools.text import one_line

_MAX_MESSAGE_BYTES = 32 << 20
_SHUTDOWN_SECONDS = 0.5


class RpcLostError(Exception):
    """The process ended, or sent something that cannot be parsed; the message says which."""


class RpcConnection:
    """A JSON-RPC connection to a process that it starts. Only `wake` is thread-safe.

    receive: called with each message.
    Raises OSError.
    """

    def __init__(self, wrapped: Wrapped, cwd: str, memory: int, receive: Callable[[dict[str, Any]], None]) -> None:
        self._wrapped, self._receive = wrapped, receive
        self._mark = os.urandom(8).hex()
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        self.process = start_child(
            wrapped.argv,
            env=marked(wrapped.env, self._mark),
            memory=memory,
            cwd=cwd,
            bufsize=0,
            pass_fds=wrapped.pass_fds,
            **pipes,
        )
        assert self.process.stdin is not None and self.process.stdout is not None
        self._input, self._output = self.process.stdin, self.process.stdout
        for stream in (self._input, self._output):
            os.set_blocking(stream.fileno(), False)
        self._wake_writer, self._wake_reader = socket.socketpair()
        self._wake_writer.setblocking(False)
        self._wake_reader.setblocking(False)
        self._unsent, self._unread = bytearray(), bytearray()

    def wake(self) -> None:
        """Make a waiting `listen` return."""
        with suppress(OSError):
            self._wake_writer.send(b"!")

    def send(self, message: dict[str, Any]) -> None:
        """Queue a message; `listen` writes it."""
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        if len(self._unsent) > _MAX_MESSAGE_BYTES:
            raise RpcLostError("does not read what it is sent")
        self._unsent += b"Content-Length: %d\r\n\r\n%s" % (len(body), body)

    def listen(self, seconds: float) -> None:
        """Write and read for up to `seconds`, until a message came or `wake` was called.

        Raises RpcLostError.
        """
        until = monotonic() + seconds
        while True:
            writers: list[Any] = [self._input] if self._unsent else []
            watched: list[Any] = [self._output, self._wake_reader]
            readable, writable, _ = select.select(watched, writers, [], max(0, until - monotonic()))
            try:
                if writable:
                    del self._unsent[: os.write(self._input.fileno(), self._unsent[:65_536])]
                if self._output in readable:
                    self._read_messages()
                    return
            except BlockingIOError:
                pass
            except OSError as error:
                raise RpcLostError(f"ended: {error}") from None
            if self._wake_reader in readable:
                with suppress(OSError):
                    self._wake_reader.recv(4_096)
                return
            if monotonic() >= until:
                return

    def _read_messages(self) -> None:
        data = os.read(self._output.fileno(), 1 << 16)
        if not data:
            raise RpcLostError("ended by itself")
        self._unread += data
        while (end := self._unread.find(b"\r\n\r\n")) >= 0:
            size = _length(bytes(self._unread[:end]))
            start = end + 4
            if len(self._unread) < start + size:
                return
            body = bytes(self._unread[start : start + size])
            del self._unread[: start + size]
            try:
                message = json.loads(body)
            except (ValueError, RecursionError):
                raise RpcLostError("sent a message that is not JSON") from None
            if isinstance(message, dict):
                self._receive(message)
        if len(self._unread) > _MAX_MESSAGE_BYTES:
            raise RpcLostError("sent something that is not a message")

    def close(self, *, graceful: bool) -> None:
        """End the process and everything it started. graceful: it was asked to exit, and gets a moment for that."""
        if graceful:
            with suppress(RpcLostError):
                self.listen(0)
            self._input.close()
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(_SHUTDOWN_SECONDS)
        if self.process.poll() is None:
            kill_group(self.process, signal.SIGKILL)
            self.process.wait()
        end_strays(self._mark)
        for stream in (self._input, self._output, self._wake_writer, self._wake_reader):
            with suppress(OSError):
                stream.close()
        self._wrapped.close()


def _length(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length" and value.strip().isdigit():
            size = int(value[:12])
            if size <= _MAX_MESSAGE_BYTES:
                return size
    raise RpcLostError("sent something that is not a message")


START_SECONDS = 60.0
TIMEOUT_SECONDS = 30.0
# A server may publish more soon after its first diagnostics.
QUIET_SECONDS = 0.25
_MAX_OPEN_DOCUMENTS = 20
_MAX_FILE_BYTES = 8 << 20
_MAX_BUSY_TOKENS = 2_000
_RETRY_CODES = (-32801, -32802)
# For so long after its start, an empty answer may only mean that the server has not begun to index the project.
SETTLE_SECONDS = 2.0
# Some servers answer from the files that they have found so far, without a word about it: an answer over all files is
# believed once a second one after this time is the same.
CONFIRM_SECONDS = 1.0
# Files whose changes a server learns of before a question.
_MAX_WATCHED_FILES = 20_000
_CAPABILITIES = {
    "general": {"positionEncodings": ["utf-32", "utf-16"]},
    "textDocument": {
        "synchronization": {"didSave": True},
        "publishDiagnostics": {"versionSupport": True},
        "diagnostic": {"dynamicRegistration": False},
        "documentSymbol": {"hierarchicalDocumentSymbolSupport": True},
        "definition": {"linkSupport": True},
        "references": {},
        "rename": {},
    },
    "workspace": {
        "configuration": True,
        "workspaceFolders": True,
        "symbol": {},
        "workspaceEdit": {"documentChanges": True},
    },
    "window": {"workDoneProgress": True},
}


class ServerQuestion(Value):
    """A question about a document.

    capability: under which the server says that it answers such questions.
    params: without the document.
    over_all_files: the answer has to be complete.
    """

    method: str
    capability: str
    params: dict[str, Any]
    over_all_files: bool = False


def _sorted(answer: Any) -> str:
    """Return an answer as a text that does not depend on the order of its lists."""
    if isinstance(answer, list):
        return f"[{', '.join(sorted(map(_sorted, answer)))}]"
    if isinstance(answer, dict):
        return f"{{{', '.join(sorted(f'{key}: {_sorted(value)}' for key, value in answer.items()))}}}"
    return repr(answer)


class NoAnswerError(CheckFailedError):
    """A server that works does not answer a question: it cannot, refuses, or is still indexing."""


class LanguageServer(Source):
    """A server, started by the first check, and restarted if it dies."""

    checks_any_text = True

    def __init__(self, name: str, launcher: Launcher, root: Path, stopped: Callable[[], bool]) -> None:
        super().__init__(name, stopped)
        self._launcher, self._root = launcher, root
        self._connection: RpcConnection | None = None
        self._started = False
        self._offered: dict[str, Any] = {}
        self._started_at = 0.0
        self._count = 0
        self._answers: dict[int, dict[str, Any]] = {}
        # Open documents, the latest last: their versions, and the texts that the server has.
        self._versions: dict[Path, int] = {}
        self._texts: dict[Path, str] = {}
        # Published diagnostics by document, with the version that they are for, if the server says.
        self._published: dict[str, tuple[int | None, list[Any]]] = {}
        self._busy: set[str] = set()
        self._last_message = 0.0
        # It has given the same answer over all files twice since its start.
        self._knows_all_files = False
        # When files of the project were last changed, as far as the server was told.
        self._watched: dict[Path, int] = {}

    @property
    def encoding(self) -> str:
        """The unit in which it counts characters."""
        return str(self._offered.get("positionEncoding") or "utf-16")

    @property
    def is_running(self) -> bool:
        return self._connection is not None

    def wake(self) -> None:
        if (connection := self._connection) is not None:
            connection.wake()

    def listen(self) -> None:
        assert self._connection is not None
        try:
            self._connection.listen(60)
        except RpcLostError:
            self._end()

    def problems(self, path: Path, text: str) -> list[Problem]:
        with self._running():
            self._follow_files(path)
            return [p for d in self._diagnostics(path, text) if (p := _problem(d, self.name)) is not None]

    def ask(self, path: Path, text: str, question: Callable[[], ServerQuestion], files: Iterable[Path]) -> Any:
        """Return the answer to a question about a document with this text, once the project is indexed.

        question: made once the encoding is known. files: of the project, whose changes the server learns first.
        Raises NoAnswerError, CheckFailedError, ServerNotStartedError.
        """
        with self._running():
            self._follow_files(path)
            self._tell_changed(files)
            asked = question()
            if self._offered.get(asked.capability) in (None, False):
                raise NoAnswerError(f"does not answer {asked.method}")
            if self._texts.get(path) != text:
                self._send_text(path, text)
            params = {"textDocument": {"uri": path.as_uri()}, **asked.params}
            until, late = monotonic() + TIMEOUT_SECONDS, NoAnswerError("is still indexing the project")
            # A server says soon after its start that it indexes.
            self._await(lambda: bool(self._busy) or self._age >= QUIET_SECONDS, until)
            before = None
            while True:
                self._await(lambda: not self._busy, until, late)
                answer = self._request(asked.method, params, until - monotonic())
                wait = QUIET_SECONDS
                if not self._busy and answer not in _RETRY_CODES and (answer or self._age > SETTLE_SECONDS):
                    if not asked.over_all_files or self._knows_all_files or before == _sorted(answer):
                        self._knows_all_files = self._knows_all_files or asked.over_all_files
                        return answer
                    before, wait = _sorted(answer), CONFIRM_SECONDS
                moment = monotonic() + wait
                self._await(lambda: bool(self._busy) or monotonic() >= moment, until + wait, late)  # noqa: B023

    @property
    def _age(self) -> float:
        """Seconds since the start."""
        return monotonic() - self._started_at

    @contextmanager
    def _running(self) -> Iterator[None]:
        """Start the server if need be, and end it after a failure. Raises CheckFailedError, ServerNotStartedError."""
        runs = False
        try:
            if self._connection is None:
                self._start()
            runs = self._started = True
            yield
        except (RpcLostError, CheckFailedError, OSError, ToolError) as error:
            if runs and isinstance(error, NoAnswerError):
                raise
            self._end()
            raise (CheckFailedError if self._started else ServerNotStartedError)(str(error)) from None

    def close(self) -> None:
        if self._connection is not None:
            self._count += 1
            try:
                self._connection.send({"id": self._count, "method": "shutdown"})
                self._connection.send({"method": "exit"})
            except RpcLostError:
                pass
            self._end(graceful=True)

    def _start(self) -> None:
        wrapped = self._launcher.wrap(self._root)
        try:
            self._connection = RpcConnection(wrapped, os.fspath(self._root), MAX_MEMORY_BYTES, self._receive)
        except BaseException:  # release the sandbox of a process that was not started
            wrapped.close()
            raise
        uri = self._root.as_uri()
        # No processId: in the sandbox it would name another process or none, and the server would exit.
        params = {
            "processId": None,
            "rootUri": uri,
            "rootPath": os.fspath(self._root),
            "workspaceFolders": self._folders(),
            "capabilities": _CAPABILITIES,
        }
        answer = self._request("initialize", params, START_SECONDS)
        offered = answer.get("capabilities") if isinstance(answer, dict) else None
        self._offered = offered if isinstance(offered, dict) else {}
        self._started_at = monotonic()
        self._notify("initialized", {})
        self._notify("workspace/didChangeConfiguration", {"settings": {}})

    def _folders(self) -> list[dict[str, str]]:
        return [{"uri": self._root.as_uri(), "name": self._root.name}]

    def _end(self, *, graceful: bool = False) -> None:
        connection, self._connection = self._connection, None
        self._knows_all_files = False
        state: tuple[Any, ...] = (
            self._answers, self._versions, self._texts, self._published, self._busy, self._watched
        )  # fmt: skip
        for each in state:
            each.clear()
        if connection is not None:
            connection.close(graceful=graceful)

    def _follow_files(self, path: Path) -> None:
        """Send the server the current text of other open documents, and tell it that the file on disk has changed."""
        for other, text in list(self._texts.items()):
            if other != path:
                try:
                    now = read_regular(other, _MAX_FILE_BYTES).decode()
                except (OSError, ValueError):
                    self._close(other)
                    continue
                if now != text:
                    self._send_text(other, now)
        # 2: changed.
        self._notify("workspace/didChangeWatchedFiles", {"changes": [{"uri": path.as_uri(), "type": 2}]})

    def _tell_changed(self, files: Iterable[Path]) -> None:
        """Tell the server which files others changed, made or deleted since it was last told; at first none."""
        now: dict[Path, int] = {}
        for file in islice(files, _MAX_WATCHED_FILES):
            with suppress(OSError):
                now[file] = os.lstat(file).st_mtime_ns
        before, self._watched = self._watched, now
        # 1: made, 2: changed, 3: deleted.
        kinds = {file: 2 if file in before else 1 for file, when in now.items() if before.get(file) != when}
        kinds |= dict.fromkeys(before.keys() - now.keys(), 3)
        if before and kinds:
            changes = [{"uri": file.as_uri(), "type": kind} for file, kind in kinds.items()]
            self._notify("workspace/didChangeWatchedFiles", {"changes": changes})

    def _send_text(self, path: Path, text: str) -> int:
        """Send the server the text of a document; return the document's new version."""
        version = self._versions.get(path, 0) + 1
        document: dict[str, Any] = {"uri": path.as_uri(), "version": version}
        if path in self._texts:
            self._notify("textDocument/didChange", {"textDocument": document, "contentChanges": [{"text": text}]})
        else:
            language = LANGUAGES.get(path.suffix) or path.suffix.lstrip(".") or "plaintext"
            document |= {"languageId": language, "text": text}
            self._notify("textDocument/didOpen", {"textDocument": document})
        self._versions[path] = version
        self._texts.pop(path, None)
        self._texts[path] = text
        if len(self._texts) > _MAX_OPEN_DOCUMENTS:
            self._close(next(iter(self._texts)))
        return version

    def _close(self, path: Path) -> None:
        del self._texts[path]
        self._published.pop(_key(path.as_uri()), None)
        self._notify("textDocument/didClose", {"textDocument": {"uri": path.as_uri()}})

    def _diagnostics(self, path: Path, text: str) -> list[Any]:
        """Return the server's diagnostics of the text. Raises CheckFailedError, RpcLostError."""
        key, document, until = _key(path.as_uri()), {"uri": path.as_uri()}, monotonic() + TIMEOUT_SECONDS
        self._published.pop(key, None)
        version = self._send_text(path, text)
        if self._offered.get("diagnosticProvider", False) is False:
            # Some servers check other files only on save.
            self._notify("textDocument/didSave", {"textDocument": document})
            self._await(lambda: self._is_published(key, version), until)
            return self._published[key][1]
        while True:
            self._await(lambda: not self._busy, until)
            answer = self._request("textDocument/diagnostic", {"textDocument": document}, until - monotonic())
            if isinstance(answer, dict) and isinstance(answer.get("items"), list):
                return list(answer["items"])
            if answer not in _RETRY_CODES:
                raise CheckFailedError("sent an answer that is no list of problems")

    def _is_published(self, key: str, version: int) -> bool:
        found = self._published.get(key)
        fits = found is not None and found[0] in (None, version)
        return fits and not self._busy and monotonic() - self._last_message >= QUIET_SECONDS

    def _request(self, method: str, params: dict[str, Any], seconds: float) -> Any:
        """Return the result, or an error code in _RETRY_CODES. Raises CheckFailedError."""
        self._count += 1
        number = self._count
        self._send({"id": number, "method": method, "params": params})
        self._await(lambda: number in self._answers, monotonic() + seconds)
        answer = self._answers.pop(number)
        error = answer.get("error")
        if isinstance(error, dict):
            if error.get("code") in _RETRY_CODES:
                return error["code"]
            raise NoAnswerError(f"refused {method}: {one_line(str(error.get('message')))}")
        return answer.get("result")

    def _await(self, ready: Callable[[], bool], until: float, late: CheckFailedError | None = None) -> None:
        """Handle messages until `ready` returns True. Raises CheckFailedError, or `late` if that takes too long."""
        assert self._connection is not None
        while not ready():
            if self.stopped():
                raise CheckFailedError("was interrupted")
            left = until - monotonic()
            if left <= 0:
                raise late or CheckFailedError("did not answer in time")
            self._connection.listen(min(left, QUIET_SECONDS / 2 if self._published else 0.5))

    def _notify(self, method: str, params: dict[str, Any]) -> None:
        self._send({"method": method, "params": params})

    def _send(self, message: dict[str, Any]) -> None:
        assert self._connection is not None
        self._connection.send(message)

    def _receive(self, message: dict[str, Any]) -> None:
        method, number, params = message.get("method"), message.get("id"), message.get("params")
        if method is None:
            if isinstance(number, int):
                self._answers[number] = message
        elif number is not None:
            self._send({"id": number, "result": self._answer(method, params)})
        elif not isinstance(params, dict):
            return
        elif method == "textDocument/publishDiagnostics" and isinstance(params.get("diagnostics"), list):
            key, version = _key(str(params.get("uri"))), params.get("version")
            if key in map(_key, (path.as_uri() for path in self._texts)):
                self._published[key] = version if isinstance(version, int) else None, params["diagnostics"]
                self._last_message = monotonic()
        elif method == "$/progress" and isinstance(value := params.get("value"), dict):
            token = str(params.get("token"))
            if value.get("kind") == "begin" and len(self._busy) < _MAX_BUSY_TOKENS:
                self._busy.add(token)
            elif value.get("kind") == "end":
                self._busy.discard(token)
                self._last_message = monotonic()

    def _answer(self, method: Any, params: Any) -> Any:
        """Return the answer to a request of the server, which may change nothing."""
        if method == "workspace/configuration":
            items = params.get("items") if isinstance(params, dict) else None
            return [None] * min(len(items), 1_000) if isinstance(items, list) else []
        if method == "workspace/workspaceFolders":
            return self._folders()
        return {"applied": False} if method == "workspace/applyEdit" else None


def _key(uri: str) -> str:
    """Normalize a URI: servers escape other characters than we do."""
    return unquote(uri)


def _problem(data: Any, name: str) -> Problem | None:
    """Parse an error or warning of a server; return None for a hint or invalid data."""
    try:
        severity, code = data.get("severity", 1), data.get("code")
        line, message = data["range"]["start"]["line"] + 1, data["message"]
        if severity > 2 or not isinstance(message, str) or not isinstance(line, int):
            return None
    except (AttributeError, KeyError, TypeError):
        return None
    source = data.get("source") if isinstance(data.get("source"), str) else name
    return Problem(line, message, f"{source} {code}" if isinstance(code, str | int) else source, severity == 1)
