"""A server's process and its streams: one JSON message per line, with limits on lines and error output.

The process leads its own group, and the whole group has ended when `pipe` exits. Also the messages of a server in the
host process. Neither needs the SDK.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from subprocess import PIPE
from typing import Any

from agent_cli.kernel.host_servers import HostServers, Message
from agent_cli.mcp.jsonrpc import MAX_MESSAGE_BYTES, TOO_LONG, Unreadable, Wire, parse_message, unreadable
from agent_tools.fs.safe_files import open_regular, private_folder
from agent_tools.process.reaper import REAPER, marked
from agent_tools.text import sanitize_output

MAX_LOG_BYTES = 1 << 20
# How long to wait after closing its input, after TERM, and after KILL: together less than `manager.CLOSE_SECONDS`.
STDIN_CLOSED_SECONDS, TERM_SECONDS, KILL_SECONDS = 0.4, 0.4, 0.4
_CHUNK_BYTES = 65_536
# It warns of writes to a server that has ended, which must not reach the terminal.
logging.getLogger("asyncio").addHandler(logging.NullHandler())
logging.getLogger("asyncio").propagate = False


class HostWire(Wire):
    """The messages of a server in the host process."""

    def __init__(self, name: str, host: HostServers) -> None:
        self._name = name
        self._host = host
        self._loop = asyncio.get_running_loop()
        self._received: asyncio.Queue[Message | None] = asyncio.Queue()

    def receive(self, message: Message | None) -> None:
        """Take a message of the host, on any thread; None for the end."""
        # After the loop has ended, messages have no reader.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._received.put_nowait, message)

    async def messages(self) -> AsyncIterator[Any]:
        while (message := await self._received.get()) is not None:
            yield message

    async def send(self, message: dict[str, Any]) -> None:
        try:
            self._host.send(self._name, message)
        except Exception as error:  # noqa: BLE001 - the host's function may raise anything; this ends the server
            self._received.put_nowait(None)
            raise ConnectionError(f"{type(error).__name__}: {error}") from None


@asynccontextmanager
async def host_pipe(name: str, host: HostServers) -> AsyncGenerator[HostWire, None]:
    """Connect to a server in the host process."""
    wire = HostWire(name, host)
    host.attach(name, wire.receive)
    try:
        yield wire
    finally:
        host.detach(name, wire.receive)


class StderrTail:
    """Writes a server's error output to a file of at most MAX_LOG_BYTES, and keeps one older file of that size.

    Several processes of a server may share it.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._size = 0
        self._fd = -1
        self._last = b""
        self._opened = False

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
                self._opened = False
            if self._fd < 0:
                private_folder(self._path.parent)
                how = os.O_APPEND if self._opened else os.O_TRUNC
                self._fd = open_regular(self._path, os.O_WRONLY | os.O_CREAT | how | os.O_NOFOLLOW)
                self._size = os.fstat(self._fd).st_size
                self._opened = True
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

    def __init__(self, errors: StderrTail) -> None:
        self.errors = errors
        self.pid = 0
        self.code: int | None = None

    def kill(self) -> None:
        """Kill its process group, if it runs."""
        if self.pid and self.code is None:
            end_group(self.pid, signal.SIGKILL)


class ProcessWire(Wire):
    """The messages of a server's process, one per line."""

    def __init__(self, stdin: asyncio.StreamWriter, stdout: asyncio.StreamReader) -> None:
        self._stdin = stdin
        self._stdout = stdout

    def messages(self) -> AsyncIterator[Any]:
        return lines(self._stdout)

    async def send(self, message: dict[str, Any]) -> None:
        self._stdin.write(f"{json.dumps(message)}\n".encode())
        await self._stdin.drain()


@asynccontextmanager
async def pipe(
    command: list[str], env: Mapping[str, str], cwd: Path, server: ServerProcess
) -> AsyncGenerator[ProcessWire, None]:
    """Run the server and connect to it. Raises OSError if it cannot be run. server: receives the process's state."""
    mark = os.urandom(8).hex()
    REAPER.expect(mark)
    starting = asyncio.create_task(
        asyncio.create_subprocess_exec(
            *command, stdin=PIPE, stdout=PIPE, stderr=PIPE, env=marked(env, mark), cwd=cwd, start_new_session=True
        )
    )
    try:
        try:
            await asyncio.wait([starting])
        except asyncio.CancelledError:
            # A start that is interrupted halfway would leave its pipes open.
            await asyncio.wait([starting])
            if starting.exception() is None:
                await _end(starting.result())
            raise
        process = starting.result()
    except BaseException:  # no process is left; the caller reports the error
        REAPER.give_up(mark)
        raise
    REAPER.watch(process.pid, mark)
    server.pid, server.code = process.pid, None
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    reading = asyncio.create_task(_log(process.stderr, server.errors))
    try:
        yield ProcessWire(process.stdin, process.stdout)
    finally:
        ending = asyncio.create_task(_end(process))
        try:
            await asyncio.shield(ending)
        except asyncio.CancelledError:
            # It is ended all the same, within a limited time.
            await asyncio.wait([ending])
            raise
        finally:
            REAPER.forget(process.pid)
            server.code = process.returncode
            reading.cancel()
            server.errors.close()


async def _log(stderr: asyncio.StreamReader, errors: StderrTail) -> None:
    received = 0
    with suppress(OSError):
        while data := await stderr.read(_CHUNK_BYTES):
            errors.write(data)
            received += len(data)
            if received > MAX_LOG_BYTES:
                # It writes too much: read slowly, which makes it wait.
                await asyncio.sleep(0.02)


async def _end(process: asyncio.subprocess.Process) -> None:
    """Stop the process and its group: close its input, then TERM, then KILL."""
    assert process.stdin is not None
    process.stdin.close()
    try:
        for seconds, number in (
            (STDIN_CLOSED_SECONDS, signal.SIGTERM),
            (TERM_SECONDS, signal.SIGKILL),
            (KILL_SECONDS, None),
        ):
            if await _wait_for_exit(process, seconds):
                break
            if number is not None:
                end_group(process.pid, number)
    finally:
        # Kill the processes that it left behind in its group.
        end_group(process.pid, signal.SIGKILL)
        transport = getattr(process, "_transport", None)
        if transport is not None:
            with suppress(PermissionError):
                transport.close()


async def _wait_for_exit(process: asyncio.subprocess.Process, seconds: float) -> bool:
    # Not `wait`, which also waits for pipes that other processes may hold open.
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while process.returncode is None:
                await asyncio.sleep(0.01)
    return process.returncode is not None


def end_group(pid: int, number: int) -> None:
    """Send a signal to all processes of a group, if there are any."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


async def lines(stream: asyncio.StreamReader) -> AsyncIterator[Any]:
    """Yield the messages of a stream, one per line, in the form of `parse_message`; other lines are skipped.

    A line of more than MAX_MESSAGE_BYTES is unreadable as soon as it is known which request it answers, and at the
    latest when it ends. With four times that size it is taken to be endless, and the messages end.
    """
    parts: list[bytes] = []
    size, reported = 0, False
    while chunk := await _next_chunk(stream):
        *ended, rest = chunk.split(b"\n")
        for end in ended:
            parts.append(end)
            message = None
            if size + len(end) <= MAX_MESSAGE_BYTES:
                message = parse_message(b"".join(parts))
            elif not reported:
                message = unreadable(b"".join(parts[:2]), b"".join(parts[-2:]), TOO_LONG)
            parts, size, reported = [], 0, False
            if message is not None:
                yield message
        if not rest:
            continue
        parts.append(rest)
        size += len(rest)
        if size > MAX_MESSAGE_BYTES:
            # Only the beginning and the end of the line are kept.
            parts = [*parts[:2], *parts[-2:]] if len(parts) > 4 else parts
            found = None if reported else unreadable(b"".join(parts[:2]), b"", TOO_LONG)
            if found is not None and found.id is not None:
                reported = True
                yield found
            if size > 4 * MAX_MESSAGE_BYTES:
                yield Unreadable(None, TOO_LONG)
                return


async def _next_chunk(stream: asyncio.StreamReader) -> bytes:
    """Return some bytes; none at the end of the stream."""
    try:
        return await stream.read(_CHUNK_BYTES)
    except OSError:
        return b""
