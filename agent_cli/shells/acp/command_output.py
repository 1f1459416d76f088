"""Send the output of a command to the editor: as text, as a terminal it draws, or in a terminal it runs.

Commands always run here, in the sandbox, without the secrets of the environment and under the session's time limits. A
terminal of the editor (`terminal/create`) therefore runs a relay: a shell that prints what the command prints and exits
with its exit code. Stopping the terminal in the editor stops the command.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

from agent_cli.shells.acp.client import EditorClient, EditorError
from agent_tools.results import CommandOutput

Update = dict[str, Any]
# Limit of output that is shown as text; the model gets all of it.
MAX_SHOWN_CHARS = 20_000
# Limit of the output that a terminal of the editor keeps, and that is buffered here for it.
_MAX_BUFFER_BYTES = 1_000_000
# Time limit for a terminal of the editor to show the rest of the output after its command has ended.
_REST_SECONDS = 2.0
_RELAY = """\
# Prints the output of a command that agent runs, and exits with its exit code.
exec 3<"$0.out" && : >"$0.ready" && cat <&3
read -r code <"$0.code" && exit "$code"
"""


class OutputDisplay(Protocol):
    """Shows the output of calls. Every method returns the fields of an update of the call; {} for no update."""

    def requested(self, call_id: str, command: str) -> Update:
        """Return fields for the announcement of the call."""

    def started(self, call_id: str) -> Update:
        """The command starts."""

    def output(self, call_id: str, text: str) -> Update:
        """Add output."""

    def ended(self, call_id: str, result: CommandOutput | None) -> Update:
        """End the display. result: None if there is no exit code, such as for a command in the background."""


def output_block(text: str) -> Update:
    """Return output of a program as a block of code."""
    text = text[-MAX_SHOWN_CHARS:].rstrip("\n")
    fence = "```"
    while fence in text:
        fence += "`"
    return {"type": "content", "content": {"type": "text", "text": f"{fence}console\n{text}\n{fence}"}}


class TextOutput:
    """Shows output as a block of code, for editors without terminals, and for tools that run no command."""

    def __init__(self) -> None:
        self._output: dict[str, str] = {}

    def requested(self, call_id: str, command: str) -> Update:
        return {}

    def started(self, call_id: str) -> Update:
        return {}

    def output(self, call_id: str, text: str) -> Update:
        shown = self._output[call_id] = (self._output.get(call_id, "") + text)[-MAX_SHOWN_CHARS:]
        return {"content": [output_block(shown)]}

    def ended(self, call_id: str, result: CommandOutput | None) -> Update:
        self._output.pop(call_id, None)
        return {"content": [output_block(result.output)]} if result is not None and result.output.strip() else {}


class DrawnTerminal:
    """Shows output in terminals that the editor draws, by `_meta` fields that several editors support."""

    def __init__(self, cwd: Callable[[], Path]) -> None:
        self._cwd = cwd
        # True for calls that have had output; False for others that are shown.
        self._streamed: dict[str, bool] = {}

    def requested(self, call_id: str, command: str) -> Update:
        self._streamed[call_id] = False
        terminal = {"terminal_id": call_id, "cwd": str(self._cwd())}
        content = [{"type": "terminal", "terminalId": call_id}]
        return {"content": content, "_meta": {"terminal_info": terminal}}

    def started(self, call_id: str) -> Update:
        return {}

    def output(self, call_id: str, text: str) -> Update:
        self._streamed[call_id] = True
        return {"_meta": {"terminal_output": {"terminal_id": call_id, "data": text.replace("\n", "\r\n")}}}

    def ended(self, call_id: str, result: CommandOutput | None) -> Update:
        streamed = self._streamed.get(call_id, False)
        code, rest = (result.exit_code, "" if streamed else result.output) if result is not None else (None, "")
        last = self.output(call_id, rest)["_meta"] if rest else {}
        self._streamed.pop(call_id, None)
        return {"_meta": {**last, "terminal_exit": {"terminal_id": call_id, "exit_code": code, "signal": None}}}


class EditorTerminals:
    """Shows output in terminals that the editor runs; as text if it cannot run one.

    stop: called when the user stops a terminal in the editor, on the thread of the connection.
    """

    def __init__(
        self, client: EditorClient, session_id: str, cwd: Callable[[], Path], stop: Callable[[], None]
    ) -> None:
        self._client, self._session_id, self._cwd, self._stop = client, session_id, cwd, stop
        self._text = TextOutput()
        self._commands: dict[str, str] = {}
        self._relays: dict[str, _Relay] = {}
        self._folder: Path | None = None
        self._numbers = itertools.count(1)
        self._replaying = False

    @contextlib.contextmanager
    def replay(self) -> Iterator[None]:
        """Show calls as text while a conversation is replayed."""
        self._replaying = True
        try:
            yield
        finally:
            self._replaying = False

    def requested(self, call_id: str, command: str) -> Update:
        if not self._replaying:
            self._commands[call_id] = command
        return {}

    def started(self, call_id: str) -> Update:
        command = self._commands.pop(call_id, None)
        if command is None:
            return {}
        try:
            if self._folder is None:
                self._folder = Path(tempfile.mkdtemp(prefix="agent-terminal-"))
            relay = _Relay(self._folder / str(next(self._numbers)), self._client, self._session_id)
            relay.start(command, self._cwd(), self._stop)
        except (EditorError, OSError):
            return {}
        self._relays[call_id] = relay
        return {"content": [{"type": "terminal", "terminalId": relay.terminal_id}]}

    def output(self, call_id: str, text: str) -> Update:
        relay = self._relays.get(call_id)
        if relay is not None:
            relay.write(text)
        shown = self._text.output(call_id, text)
        return shown if relay is None else {}

    def ended(self, call_id: str, result: CommandOutput | None) -> Update:
        self._commands.pop(call_id, None)
        relay = self._relays.pop(call_id, None)
        shown = self._text.ended(call_id, result)
        if relay is None:
            return shown
        if not relay.written and result is not None:
            relay.write(result.output)
        whole = relay.end(0 if result is None or result.exit_code is None else result.exit_code)
        return {} if whole else shown

    def close(self) -> None:
        """Close all terminals and remove the files of their relays."""
        for relay in self._relays.values():
            relay.close()
        self._relays.clear()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None


class _Relay:
    """A terminal of the editor that prints what is written here. path: its script; its files are next to it."""

    def __init__(self, path: Path, client: EditorClient, session_id: str) -> None:
        self._path, self._client, self._session = path, client, {"sessionId": session_id}
        self._pipe = -1
        self._buffer = b""
        self._exited = threading.Event()
        self.terminal_id = ""
        self.written = False
        self.ending = False

    def _file(self, name: str) -> Path:
        return self._path.with_name(f"{self._path.name}.{name}")

    def start(self, command: str, cwd: Path, stop: Callable[[], None]) -> None:
        """Start the terminal. Raises EditorError, OSError; nothing is left then."""
        try:
            self._start(command, cwd, stop)
        except (EditorError, OSError):
            self.close()
            raise

    def _start(self, command: str, cwd: Path, stop: Callable[[], None]) -> None:
        self._path.write_text(_RELAY, "utf-8")
        os.mkfifo(self._file("out"), 0o600)
        # O_RDWR: opening for writing only would fail without a reader.
        self._pipe = os.open(self._file("out"), os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        asked = {
            "command": "/bin/sh",
            "args": [str(self._path), command],
            "cwd": str(cwd),
            "outputByteLimit": _MAX_BUFFER_BYTES,
        }
        terminal_id = self._client.request("terminal/create", self._session | asked).get("terminalId")
        if not isinstance(terminal_id, str):
            raise EditorError("The editor opened no terminal.")
        self.terminal_id = terminal_id

        def exited() -> None:
            self._exited.set()
            # A relay that never read is on another machine, or has no shell.
            if not self.ending and self._is_reading():
                stop()

        self._client.request_async("terminal/wait_for_exit", self._terminal_params(), exited)

    def _terminal_params(self) -> dict[str, str]:
        return self._session | {"terminalId": self.terminal_id}

    def _is_reading(self) -> bool:
        return self._file("ready").exists()

    def write(self, text: str) -> None:
        """Print text, now or as soon as the terminal takes it."""
        self.written = self.written or bool(text)
        self._buffer = (self._buffer + text.encode("utf-8", "replace"))[-_MAX_BUFFER_BYTES:]
        with contextlib.suppress(BlockingIOError):
            while self._buffer:
                self._buffer = self._buffer[os.write(self._pipe, self._buffer) :]

    def end(self, code: int) -> bool:
        """Exit with a code. Return True if the terminal has shown all output."""
        self.ending = True
        until = time.monotonic() + _REST_SECONDS
        while (self._buffer or not self._is_reading()) and not self._exited.wait(0.01) and time.monotonic() < until:
            self.write("")
        whole = not self._buffer and self._is_reading() and not self._exited.is_set()
        with contextlib.suppress(OSError):  # the folder is gone: the relay exits with 1
            self._file("code").write_text(f"{code}\n", "ascii")
        os.close(self._pipe)
        self._pipe = -1
        self._exited.wait(max(0.0, until - time.monotonic()))
        self.close()
        return whole

    def close(self) -> None:
        """Release the terminal; it keeps showing its output, and the editor ends a relay that still runs."""
        self.ending = True
        if self._pipe >= 0:
            os.close(self._pipe)
            self._pipe = -1
        if self.terminal_id:
            with contextlib.suppress(EditorError):
                self._client.request("terminal/release", self._terminal_params())
        for path in (self._path, *map(self._file, ("out", "ready", "code"))):
            path.unlink(missing_ok=True)
