"""A server's process and its streams: one JSON message per line, with limits on lines and error output.

The process leads its own group, and the whole group has ended when `pipe` exits. From a line that is too long only the
request id is extracted, so that only this request fails.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import re
import signal
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from subprocess import PIPE
from typing import Any

import anyio
import mcp_types
from anyio.abc import ByteReceiveStream, Process
from mcp.shared.message import SessionMessage

from agent_cli.core.host_servers import HostServers, Message
from agent_tools.fs.safe_files import open_regular, private_folder
from agent_tools.process.reaper import REAPER, marked
from agent_tools.text import sanitize_output

_PIPE_ENDS = (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError)


@asynccontextmanager
async def host_pipe(name: str, host: HostServers, gone: Callable[[], None]) -> AsyncGenerator[Any, None]:
    """Provide the two message streams of a server in the host process. gone: called when the host reports its end."""
    loop = asyncio.get_running_loop()
    into, messages = anyio.create_memory_object_stream[SessionMessage | Exception](math.inf)
    outgoing, written = anyio.create_memory_object_stream[SessionMessage](0)

    def deliver(message: Message | None) -> None:
        if message is None:
            into.close()
            gone()
        elif (read := _read(message)) is not None:
            with suppress(*_PIPE_ENDS):
                into.send_nowait(read)

    def receive(message: Message | None) -> None:
        # After the loop has ended, messages have no reader.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(deliver, message)

    async def write() -> None:
        with suppress(*_PIPE_ENDS):
            async with written:
                async for message in written:
                    try:
                        host.send(name, message.message.model_dump(mode="json", by_alias=True, exclude_unset=True))
                    except Exception:  # noqa: BLE001 - the host's function may raise anything; this ends the server
                        deliver(None)
                        return

    host.attach(name, receive)
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(write)
            try:
                yield messages, outgoing
            finally:
                messages.close()
                outgoing.close()
                group.cancel_scope.cancel()
    finally:
        host.detach(name, receive)
        into.close()


def _read(message: Message) -> SessionMessage | None:
    """Parse a message of the host; return an error for a malformed answer, None for anything else malformed."""
    try:
        return SessionMessage(mcp_types.jsonrpc_message_adapter.validate_python(message, by_name=False))
    except ValueError:
        number = message.get("id")
        if not isinstance(number, int | str) or "method" in message:
            return None
        error = mcp_types.ErrorData(code=mcp_types.INTERNAL_ERROR, message="its answer does not follow the protocol")
        return SessionMessage(mcp_types.JSONRPCError(jsonrpc="2.0", id=number, error=error))


MAX_LINE_BYTES = 16 << 20
MAX_LOG_BYTES = 1 << 20
# How long to wait after closing its input, after TERM, and after KILL: together less than `manager.CLOSE_SECONDS`.
STDIN_CLOSED_SECONDS, TERM_SECONDS, KILL_SECONDS = 0.4, 0.4, 0.4
_ENDS = (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError, OSError)
_ID = rb'"id"\s*:\s*(\d{1,18}|"[^"\\]{1,80}")'


class StderrTail:
    """Writes a server's error output to a file of at most MAX_LOG_BYTES, and keeps one older file of that size."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._size = 0
        self._fd = -1
        self._last = b""

    def write(self, data: bytes) -> None:
        """Append to the file, if there is one. Never raises."""
        self._last = (self._last + data)[-2_000:]
        if self._path is None:
            return
        try:
            if self._fd >= 0 and self._size + len(data) > MAX_LOG_BYTES:
                os.close(self._fd)
                self._fd = -1
                self._path.replace(self._path.with_suffix(".old"))
            if self._fd < 0:
                private_folder(self._path.parent)
                self._fd = open_regular(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW)
                self._size = 0
            self._size += os.write(self._fd, data)
        except OSError:
            self._path = None

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    @property
    def last(self) -> str:
        """The last line that is not blank."""
        lines = [line for line in sanitize_output(self._last.decode("utf-8", "replace")).splitlines() if line.strip()]
        return lines[-1].strip()[:300] if lines else ""


class ServerProcess:
    """A server's process.

    errors: its error output.
    pid: 0 before it is started.
    code: its exit code; None while it runs.
    """

    def __init__(self, log: Path | None) -> None:
        self.errors = StderrTail(log)
        self.pid = 0
        self.code: int | None = None


@asynccontextmanager
async def pipe(
    command: list[str], env: Mapping[str, str], cwd: Path, server: ServerProcess, gone: Callable[[], None]
) -> AsyncGenerator[Any, None]:
    """Run the server and provide its two message streams. Raises OSError if it cannot be run.

    server: receives the state of the process.
    gone: called when its output ends.
    """
    mark = os.urandom(8).hex()
    REAPER.expect(mark)
    try:
        process = await anyio.open_process(
            command, stdin=PIPE, stdout=PIPE, stderr=PIPE, env=marked(env, mark), cwd=cwd, start_new_session=True
        )
    except BaseException:  # no process was started; the caller reports the error
        REAPER.give_up(mark)
        raise
    REAPER.watch(process.pid, mark)
    server.pid, server.code = process.pid, None
    into, messages = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, written = anyio.create_memory_object_stream[SessionMessage](0)
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    stdin, stdout, stderr = process.stdin, process.stdout, process.stderr

    async def read() -> None:
        with suppress(*_ENDS):
            async with into:
                async for message in lines(stdout):
                    await into.send(message)
        gone()

    async def write() -> None:
        with suppress(*_ENDS):
            async with written:
                async for message in written:
                    text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                    await stdin.send(f"{text}\n".encode())

    async def log() -> None:
        received = 0
        with suppress(*_ENDS):
            while True:
                data = await stderr.receive(65_536)
                server.errors.write(data)
                received += len(data)
                if received > MAX_LOG_BYTES:
                    # It writes too much: read slowly, which makes it wait.
                    await anyio.sleep(0.02)

    async with anyio.create_task_group() as group:
        for task in (read, write, log):
            group.start_soon(task)
        try:
            yield messages, outgoing
        finally:
            with anyio.CancelScope(shield=True):
                messages.close()
                outgoing.close()
                await _end(process)
            REAPER.forget(process.pid)
            server.code = process.returncode
            server.errors.close()
            group.cancel_scope.cancel()


async def _end(process: Process) -> None:
    """Stop the process and its group: close its input, then TERM, then KILL."""
    assert process.stdin is not None
    with suppress(*_ENDS), anyio.move_on_after(0.1):
        await process.stdin.aclose()
    for seconds, number in (
        (STDIN_CLOSED_SECONDS, signal.SIGTERM),
        (TERM_SECONDS, signal.SIGKILL),
        (KILL_SECONDS, None),
    ):
        if await _wait_for_exit(process, seconds):
            break
        if number is not None:
            end_group(process.pid, number)
    # Kill the processes that it left behind in its group.
    end_group(process.pid, signal.SIGKILL)
    transport = getattr(getattr(process, "_process", None), "_transport", None)
    if transport is not None:
        with suppress(PermissionError):
            transport.close()


async def _wait_for_exit(process: Process, seconds: float) -> bool:
    # Not `wait`, which also waits for pipes that other processes may hold open.
    with anyio.move_on_after(seconds):
        while process.returncode is None:
            await anyio.sleep(0.01)
    return process.returncode is not None


def end_group(pid: int, number: int) -> None:
    """Send a signal to all processes of a group, if there are any."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


async def lines(stream: ByteReceiveStream) -> AsyncGenerator[SessionMessage | Exception, None]:
    """Yield the messages of a stream, one per line. Other lines are skipped; too long ones become an error."""
    parts: list[bytes] = []
    size = 0
    while True:
        try:
            chunk = await stream.receive(65_536)
        except _ENDS:
            return
        *ended, rest = chunk.split(b"\n")
        for end in ended:
            parts.append(end)
            size += len(end)
            message = _error_for_long_line(parts) if size > MAX_LINE_BYTES else _message(b"".join(parts))
            parts, size = [], 0
            if message is not None:
                yield message
        if rest:
            parts.append(rest)
            size += len(rest)
        if size > MAX_LINE_BYTES and len(parts) > 2:
            # The first and the last chunks may contain the request id.
            parts = [parts[0], parts[-2], parts[-1]]


def _message(line: bytes) -> SessionMessage | None:
    if not line.strip():
        return None
    try:
        return SessionMessage(mcp_types.jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError:
        # Some servers print greetings to stdout; ignore such lines.
        return None


def _error_for_long_line(parts: list[bytes]) -> SessionMessage | None:
    """Return the error answer for a line above MAX_LINE_BYTES; None if it answers no request."""
    found = re.search(_ID, parts[0][:200]) or re.search(_ID, b"".join(parts[-2:])[-200:])
    if found is None:
        return None
    text = f"the answer has more than {MAX_LINE_BYTES >> 20} MB, and was discarded"
    error = mcp_types.ErrorData(code=mcp_types.INTERNAL_ERROR, message=text)
    return SessionMessage(mcp_types.JSONRPCError(jsonrpc="2.0", id=json.loads(found[1]), error=error))
