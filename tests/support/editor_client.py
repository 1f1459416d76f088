"""An editor, made of the client of the `agent-client-protocol` package, that talks to the real program."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from acp import RequestError, connect_to_agent, text_block
from acp.schema import (
    AllowedOutcome,
    ClientCapabilities,
    CreateTerminalResponse,
    DeniedOutcome,
    FileSystemCapabilities,
    PermissionOption,
    ReadTextFileResponse,
    RequestPermissionResponse,
    WaitForTerminalExitResponse,
)

from tests.support.fork_server import start
from tests.support.program import clean_env
from tests.support.scripts import script

WAIT = 60


class EditorTerminal:
    """A program that the editor runs. line: its words. output: what it printed so far."""

    def __init__(self, process: asyncio.subprocess.Process, line: list[str]) -> None:
        self.process, self.line, self.output, self.released = process, line, "", False
        self._reading = asyncio.ensure_future(self._read())

    async def _read(self) -> None:
        assert self.process.stdout is not None
        while data := await self.process.stdout.read(4096):
            self.output += data.decode()

    def kill(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)

    async def end(self) -> int:
        """Wait for the end of the program; return its exit code."""
        await self._reading
        return await self.process.wait()


class FakeEditor:
    """What an editor does. updates: those that came, as JSON. asked: permission requests, as JSON.

    choose: returns the option for a request, by its options; None cancels.
    buffers: unsaved text by path. forms: answers to forms, in order.
    """

    def __init__(self) -> None:
        self.updates: list[dict[str, Any]] = []
        self.asked: list[dict[str, Any]] = []
        self.choose: Callable[[list[str]], str | None] = lambda keys: "y" if "y" in keys else keys[0]
        self.on_ask: Callable[[], Coroutine[Any, Any, None]] | None = None
        self.buffers: dict[str, str] = {}
        self.written: list[str] = []
        self.forms: list[Any] = []
        self.terminals: dict[str, EditorTerminal] = {}
        self._came = asyncio.Event()

    def on_connect(self, conn: Any) -> None:
        self.connection = conn

    async def session_update(self, session_id: str, update: Any, **more: Any) -> None:
        found = update.model_dump(mode="json", by_alias=True, exclude_none=True)
        self.updates.append({"session": session_id, **found})
        self._came.set()

    async def until(self, test: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
        """Wait for an update, and return it."""
        async with asyncio.timeout(WAIT):
            while True:
                self._came.clear()
                if found := next((u for u in self.updates if test(u)), None):
                    return found
                await self._came.wait()

    async def request_permission(
        self, session_id: str, tool_call: Any, options: list[PermissionOption], **more: Any
    ) -> RequestPermissionResponse:
        call = tool_call.model_dump(mode="json", by_alias=True, exclude_none=True)
        listed = {o.option_id: (o.name, o.kind) for o in options}
        self.asked.append({**call, "options": listed})
        if self.on_ask is not None:
            await self.on_ask()
        key = self.choose(list(listed))
        if key is None:
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=key))

    async def read_text_file(self, session_id: str, path: str, **more: Any) -> ReadTextFileResponse:
        if path in self.buffers:
            return ReadTextFileResponse(content=self.buffers[path])
        if not Path(path).is_file():
            raise RequestError.resource_not_found(path)
        return ReadTextFileResponse(content=Path(path).read_text("utf-8"))

    async def write_text_file(self, session_id: str, path: str, content: str, **more: Any) -> None:
        self.written.append(path)
        self.buffers.pop(path, None)
        Path(path).write_text(content, "utf-8")

    async def create_terminal(
        self, session_id: str, command: str, args: list[str], cwd: str, **more: Any
    ) -> CreateTerminalResponse:
        process = await asyncio.create_subprocess_exec(
            command, *args, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip
        terminal_id = f"terminal-{len(self.terminals) + 1}"
        self.terminals[terminal_id] = EditorTerminal(process, [command, *args])
        return CreateTerminalResponse(terminal_id=terminal_id)

    async def wait_for_terminal_exit(
        self, session_id: str, terminal_id: str, **more: Any
    ) -> WaitForTerminalExitResponse:
        code = await self.terminals[terminal_id].end()
        return WaitForTerminalExitResponse(exit_code=code) if code >= 0 else WaitForTerminalExitResponse(signal="KILL")

    async def release_terminal(self, session_id: str, terminal_id: str, **more: Any) -> None:
        terminal = self.terminals[terminal_id]
        terminal.released = True
        if terminal.process.returncode is None:
            terminal.kill()

    async def create_elicitation(self, message: str, mode: Any, **more: Any) -> dict[str, Any]:
        if isinstance(self.forms[0], dict):  # a whole form of a server
            self.shown = message, mode
            return {"action": "accept", "content": self.forms.pop(0)}
        return {"action": "accept", "content": {"answer": self.forms.pop(0)}}

    def kinds(self) -> list[str]:
        return [u["sessionUpdate"] for u in self.updates]

    def text(self, kind: str = "agent_message_chunk") -> str:
        return "".join(u["content"]["text"] for u in self.updates if u["sessionUpdate"] == kind)

    def last_call(self, call_id: str) -> dict[str, Any]:
        """Return what is known of a call after all its updates."""
        found: dict[str, Any] = {}
        for update in self.updates:
            if update.get("toolCallId") == call_id:
                found |= update
        return found


class EditorConnection:
    """A connection to the program. agent: the methods of the protocol. process: the program."""

    def __init__(self, agent: Any, process: subprocess.Popen[bytes], editor: FakeEditor) -> None:
        self.agent, self.process, self.editor = agent, process, editor

    async def prompt(self, session_id: str, *blocks: Any) -> Any:
        listed = [text_block(block) if isinstance(block, str) else block for block in blocks]
        async with asyncio.timeout(WAIT):
            return await self.agent.prompt(session_id=session_id, prompt=listed)


@asynccontextmanager
async def connected(
    work: Path,
    replies: list[dict[str, Any]] | None,
    *args: str,
    editor: FakeEditor | None = None,
    capabilities: ClientCapabilities | None = None,
    **env: str,
) -> AsyncIterator[EditorConnection]:
    """Start `agent acp` on a script, and connect an editor that has sent initialize."""
    work.mkdir(exist_ok=True)
    model = ["--model", script(work.parent / "script.toml", replies)] if replies is not None else []
    environment = clean_env(work.parent / "home", IS_SANDBOX="1", **env)
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with start(["acp", *model, *args], work, environment, **pipes) as process:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=1 << 26)
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), process.stdout)
        transport, flow = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, process.stdin)
        writer = asyncio.StreamWriter(transport, flow, reader, loop)
        editor = editor or FakeEditor()
        agent = connect_to_agent(editor, writer, reader, use_unstable_protocol=True)  # type: ignore[arg-type]
        try:
            async with asyncio.timeout(WAIT):
                shown = await agent.initialize(protocol_version=1, client_capabilities=capabilities)
            found = EditorConnection(agent, process, editor)
            found.offers = shown  # type: ignore[attr-defined]
            yield found
        finally:
            await agent.close()
            writer.close()
            try:
                await asyncio.to_thread(process.wait, WAIT)
            except BaseException:
                process.kill()
                raise


FILES = ClientCapabilities(fs=FileSystemCapabilities(read_text_file=True, write_text_file=True))
