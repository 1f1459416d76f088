"""The agent side of the protocol: the requests of the editor, and its sessions.

Requests are answered on the event loop; longer work runs on separate threads, so that sessions do not delay each
other. Every error is a JSON-RPC error with one sentence. Standard output is reserved for the protocol: anything else
written to it goes to standard error. When the editor disconnects, or on a signal, all sessions and their processes end.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import stat
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from agent_cli import Config, SessionStore, UsageError, __version__, find_environment, read_settings
from agent_cli.kernel.session.store import write_crash_report
from agent_cli.shells.acp.client import EditorClient
from agent_cli.shells.acp.protocol import (
    PROTOCOL_VERSION,
    AgentConnection,
    RequestError,
    Route,
    ValidationError,
    build_agent_router,
)
from agent_cli.shells.acp.updates import PromptFailedError
from agent_tools.lazy import lazy_imports
from agent_tools.text import one_line

if TYPE_CHECKING:
    from agent_cli.shells.acp.session import EditorSession

# The first response needs none of these, so they load after it.
with lazy_imports():
    from agent_cli.kernel.runtime import models
    from agent_cli.shells.acp import session as acp_session
    from agent_cli.shells.terminal import login

T = TypeVar("T")
_INVALID, _INTERNAL, _AUTH, _MISSING = -32602, -32603, -32000, -32002
_MAX_LINE_BYTES = 64 << 20
_PAGE_SIZE = 50
# Time limit for sessions to end when the editor is gone.
_GRACE_SECONDS = 8.0
_SESSION_CAPABILITIES = ("list", "delete", "fork", "resume", "close", "additionalDirectories")
_NO_EDITOR = "agent acp is started by an editor, which speaks to it over two pipes; docs/editors.md has the settings."
_AUTH_METHOD = "environment"
_KEY_HELP = (
    "Run agent login in a terminal. Or set the key of a provider in the environment that the editor starts agent with, "
    "such as ANTHROPIC_API_KEY or OPENAI_API_KEY, or name a key_command in ~/.agentrc."
)


class AcpServer:
    """The methods of the protocol, under the names that the router of the package expects."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._sessions: dict[str, EditorSession] = {}
        self._turns: dict[str, asyncio.Lock] = {}
        self._cancels: dict[str, int] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        # The sessions of prompts that run or wait, by the ID of the request.
        self._prompts: dict[Any, str] = {}
        self.client: EditorClient

    async def initialize(self, protocol_version: int, client_capabilities: Any = None, **more: Any) -> dict[str, Any]:
        if client_capabilities is not None:
            self.client.capabilities = client_capabilities.model_dump(mode="json", by_alias=True, exclude_none=True)
        threading.Thread(target=lambda: acp_session.EditorSession, daemon=True).start()
        return {
            "protocolVersion": min(protocol_version, PROTOCOL_VERSION) or PROTOCOL_VERSION,
            "agentInfo": {"name": "agent", "title": "agent", "version": __version__},
            "authMethods": self._auth_methods(),
            "agentCapabilities": {
                "loadSession": True,
                "promptCapabilities": {"image": True, "audio": False, "embeddedContext": True},
                "mcpCapabilities": {"http": True, "sse": True},
                "sessionCapabilities": {name: {} for name in _SESSION_CAPABILITIES},
                "auth": {"logout": {}},
            },
        }

    def _auth_methods(self) -> list[dict[str, Any]]:
        """Return how to log in; in a terminal only if the editor can open one."""
        methods: list[dict[str, Any]] = [{"id": _AUTH_METHOD, "name": "A provider's key", "description": _KEY_HELP}]
        if (self.client.capabilities.get("auth") or {}).get("terminal"):
            methods.append({"id": "login", "type": "terminal", "name": "Log in in a terminal", "args": ["login"]})
        return methods

    async def logout(self, params: Any = None) -> dict[str, Any]:
        """Remove the keys that the user stored with `agent login`."""

        def forget() -> None:
            run_env = find_environment(os.environ)
            keys = models.ReachableModels(run_env, read_settings(self._config, run_env).settings()).keys
            for name in keys.names():
                login.log_out(run_env, self._config, name)

        await _in_thread(forget)
        return {}

    def begin_request(self, request_id: Any, method: str, params: Any) -> None:
        """Note a prompt, which `cancel_request` may cancel."""
        if method == "session/prompt" and isinstance(params, dict):
            self._prompts[request_id] = str(params.get("sessionId"))

    def end_request(self, request_id: Any) -> None:
        """Forget a request that was answered."""
        self._prompts.pop(request_id, None)

    async def cancel_request(self, params: Any) -> None:
        """Cancel a prompt by the ID of its request; other requests are answered at once."""
        request_id = params.get("requestId") if isinstance(params, dict) else None
        if (session_id := self._prompts.get(request_id)) is not None:
            await self.cancel(session_id)

    async def authenticate(self, method_id: str, **more: Any) -> dict[str, Any]:
        """Check that a model can be reached now; the keys themselves are never sent over the protocol."""

        def check() -> None:
            run_env = find_environment(os.environ)
            settings = read_settings(self._config, run_env).settings()
            models.ReachableModels(run_env, settings).choose(self._config.model or settings.model)

        await _in_thread(check)
        return {}

    async def new_session(
        self, cwd: str, mcp_servers: Any = None, additional_directories: Any = None, **more: Any
    ) -> dict[str, Any]:
        config = self._config_for(mcp_servers, additional_directories)
        session = await self._open(config, cwd)
        return {"sessionId": session.id, **session.state()}

    async def load_session(
        self, cwd: str, session_id: str, mcp_servers: Any = None, additional_directories: Any = None, **more: Any
    ) -> dict[str, Any]:
        session = await self._reopen(cwd, session_id, mcp_servers, additional_directories)
        await _in_thread(session.replay)
        return session.state()

    async def resume_session(
        self, cwd: str, session_id: str, mcp_servers: Any = None, additional_directories: Any = None, **more: Any
    ) -> dict[str, Any]:
        session = await self._reopen(cwd, session_id, mcp_servers, additional_directories)
        return session.state()

    async def fork_session(
        self, cwd: str, session_id: str, mcp_servers: Any = None, additional_directories: Any = None, **more: Any
    ) -> dict[str, Any]:
        config = self._config_for(mcp_servers, additional_directories)
        config = config.replace(resume=_check_session_id(session_id, cwd), fork=True)
        if (old := self._sessions.get(session_id)) is not None:
            config = config.replace(model=old.agent.label)
        session = await self._open(config, cwd)
        return {"sessionId": session.id, **session.state()}

    async def list_sessions(self, cwd: str | None = None, cursor: str | None = None, **more: Any) -> dict[str, Any]:
        if cursor and not cursor.isdecimal():
            raise UsageError(f"{cursor!r} is not a cursor of session/list.")
        start = int(cursor or 0)

        def found() -> list[Any]:
            if cwd is None:
                return SessionStore.all_summaries(os.environ)
            return list(SessionStore.of(find_environment(os.environ, _absolute(cwd))).summaries())

        every = [each for each in await _in_thread(found) if each.messages and (each.cwd or cwd)]
        listed = [
            {"sessionId": e.session_id, "cwd": e.cwd or cwd, "title": one_line(e.title), "updatedAt": e.updated}
            for e in every[start : start + _PAGE_SIZE]
        ]
        more_left = {"nextCursor": str(start + _PAGE_SIZE)} if len(every) > start + _PAGE_SIZE else {}
        return {"sessions": listed, **more_left}

    async def close_session(self, session_id: str, **more: Any) -> dict[str, Any]:
        await self._close(self._session(session_id))
        return {}

    async def delete_session(self, params: Any) -> dict[str, Any]:
        """Answer session/delete; a session that does not exist is deleted already, as the protocol has it."""
        session_id = params.get("sessionId") if isinstance(params, dict) else None
        if not isinstance(session_id, str):
            raise RequestError(_INVALID, "session/delete: sessionId is the ID of a session.")
        if (session := self._sessions.get(session_id)) is not None:
            await self._close(session)

        def remove() -> None:
            for store in SessionStore.everywhere(os.environ):
                if session_id in store.ids() and (why := store.session(session_id).remove()):
                    raise UsageError(why)

        await _in_thread(remove)
        return {}

    async def prompt(self, prompt: Sequence[Any], session_id: str, **more: Any) -> dict[str, Any]:
        """Run a prompt, after those of the same session that came before."""
        session, cancels = self._session(session_id), self._cancels[session_id]
        async with self._turns[session_id]:
            if self._cancels[session_id] != cancels or session.closed:
                return {"stopReason": "cancelled"}
            session.begin_prompt()
            return await _in_thread(lambda: session.prompt(prompt))

    async def cancel(self, session_id: str, **more: Any) -> None:
        session = self._sessions.get(session_id)
        if session is not None:
            self._cancels[session_id] += 1
            session.cancel()

    async def set_session_mode(self, mode_id: str, session_id: str, **more: Any) -> dict[str, Any]:
        await self._set_option(session_id, "mode", mode_id)
        return {}

    async def set_config_option(self, config_id: str, session_id: str, value: Any, **more: Any) -> dict[str, Any]:
        session = await self._set_option(session_id, config_id, str(value))
        return {"configOptions": session.state()["configOptions"]}

    async def set_session_model(self, params: Any) -> dict[str, Any]:
        """Answer session/set_model, which came before the options of a session."""
        given = params if isinstance(params, dict) else {}
        await self._set_option(str(given.get("sessionId")), "model", str(given.get("modelId")))
        return {}

    async def _set_option(self, session_id: str, name: str, value: str) -> EditorSession:
        session = self._session(session_id)
        await _in_thread(lambda: session.set_option(name, value))
        return session

    def _session(self, session_id: str) -> EditorSession:
        if (session := self._sessions.get(session_id)) is None:
            raise RequestError(_MISSING, f"Session {one_line(session_id)} is not open here: load it first.")
        return session

    def _config_for(self, servers: Any, folders: Any) -> Config:
        """Return the configuration of a session. Raises UsageError."""
        declared = {server.name: _server_entry(server) for server in servers or ()}
        given = (json.dumps({"mcpServers": declared}),) if declared else ()
        return self._config.replace(
            servers=(*self._config.servers, *given),
            folders=(*self._config.folders, *(folders or ())),
        )

    async def _open(self, config: Config, cwd: str) -> EditorSession:
        """Open a session and announce it once it is answered. Raises UsageError."""

        def open_session() -> EditorSession:
            run_env = find_environment(os.environ, _absolute(cwd))
            return acp_session.EditorSession(self.client, config, run_env)

        session = await _in_thread(open_session)
        self._sessions[session.id] = session
        self._turns[session.id] = asyncio.Lock()
        self._cancels[session.id] = 0
        task = asyncio.get_running_loop().create_task(self._announce(session))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return session

    async def _announce(self, session: EditorSession) -> None:
        # Send the response with the session's ID first.
        await asyncio.sleep(0.05)
        await _in_thread(session.announce)

    async def _reopen(self, cwd: str, session_id: str, servers: Any, folders: Any) -> EditorSession:
        if (open_already := self._sessions.get(session_id)) is not None:
            await self._close(open_already)
        config = self._config_for(servers, folders)
        return await self._open(config.replace(resume=_check_session_id(session_id, cwd)), cwd)

    async def _close(self, session: EditorSession) -> None:
        session.cancel()
        self._cancels[session.id] += 1
        async with self._turns[session.id]:
            if self._sessions.pop(session.id, None) is not None:
                await _in_thread(session.close)

    async def close(self) -> None:
        """End all sessions; those that do not end in time end with the process."""
        closing = [asyncio.create_task(self._close(session)) for session in list(self._sessions.values())]
        if closing:
            await asyncio.wait(closing, timeout=_GRACE_SECONDS)


async def _in_thread(work: Callable[[], T]) -> T:
    """Run `work` on a daemon thread and return its result."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: BaseException | None) -> None:
        if done.cancelled():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)  # type: ignore[arg-type]

    def run() -> None:
        result, problem = None, None
        try:
            result = work()
        except BaseException as error:  # noqa: BLE001 - it is raised where the result is awaited
            problem = error
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(settle, result, problem)

    threading.Thread(target=run, daemon=True).start()
    return await done


def _absolute(cwd: str) -> str:
    if not Path(cwd).is_absolute():
        raise UsageError(f"cwd is {one_line(cwd)!r}: it has to be an absolute path.")
    return cwd


def _check_session_id(session_id: str, cwd: str) -> str:
    """Return the ID of a session of the project. Raises RequestError."""
    run_env = find_environment(os.environ, _absolute(cwd))
    store = SessionStore.of(run_env)
    if not os.path.exists(store.path(session_id)):  # noqa: PTH110 - the method raises in closed folders
        raise RequestError(_MISSING, f"There is no session {one_line(session_id)} in {run_env.root}.")
    return session_id


def _server_entry(server: Any) -> dict[str, Any]:
    """Return an MCP server as .mcp.json would declare it. Raises UsageError."""
    kind = getattr(server, "type", "stdio")
    if kind in ("http", "sse"):
        return {"type": kind, "url": server.url, "headers": {h.name: h.value for h in server.headers}}
    if kind != "stdio":
        raise UsageError(
            f"The MCP server {one_line(server.name)} is of type {kind}; stdio, http and sse are supported."
        )
    return {"command": server.command, "args": server.args, "env": {v.name: v.value for v in server.env}}


async def _answer(handler: Any, method: str, params: Any, is_notification: bool) -> Any:
    """Answer a request; every error becomes one of the protocol, with one sentence."""
    try:
        return await handler(method, params, is_notification)
    except RequestError as error:
        if str(error) == "Method not found":
            raise RequestError(error.code, f"agent does not answer {one_line(method)}.", error.data) from None
        raise
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "params"
        raise RequestError(_INVALID, f"{method}: {where}: {first['msg']}.") from None
    except models.NoAccessError as error:
        raise RequestError(_AUTH, str(error)) from None
    except UsageError as error:
        raise RequestError(_INVALID, str(error)) from None
    except PromptFailedError as error:
        raise RequestError(_AUTH if error.kind == "auth" else _INTERNAL, str(error)) from None
    except asyncio.CancelledError:
        raise
    except Exception as error:  # noqa: BLE001 - a traceback goes to the report, never to the editor
        path = write_crash_report(error, os.environ)
        text = one_line(f"{type(error).__name__}: {error}")
        raise RequestError(_INTERNAL, f"Internal error: {text}" + (f" (details in {path})" if path else "")) from None


async def _streams(output: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Return standard input, and the pipe with this descriptor, as streams."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=_MAX_LINE_BYTES)
    protocol = asyncio.StreamReaderProtocol(reader)
    await loop.connect_read_pipe(lambda: protocol, os.fdopen(os.dup(0), "rb", 0))
    pipe = os.fdopen(output, "wb", 0)
    transport, flow = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, pipe)
    return reader, asyncio.StreamWriter(transport, flow, reader, loop)


async def _serve(config: Config, output: int) -> None:
    server = AcpServer(config)
    router = build_agent_router(server, use_unstable_protocol=True)  # type: ignore[arg-type]
    router.add_route(Route("session/set_model", server.set_session_model, "request"))
    router.add_route(Route("session/delete", server.delete_session, "request"))
    router.add_route(Route("logout", server.logout, "request"))
    reader, writer = await _streams(output)

    async def handle(method: str, params: Any, is_notification: bool) -> Any:
        if method == "$/cancel_request":
            return await server.cancel_request(params)
        return await _answer(router, method, params, is_notification)

    connection = AgentConnection(handle, writer, reader)
    connection.began, connection.ended = server.begin_request, server.end_request
    server.client = EditorClient(connection, asyncio.get_running_loop())
    listening = asyncio.ensure_future(connection.main_loop())
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, listening.cancel)
    try:
        with suppress(asyncio.CancelledError):
            await listening
    finally:
        server.client.disconnect()
        await server.close()
        with suppress(Exception):
            await asyncio.wait_for(connection.close(), 1)


def serve_editor(config: Config) -> int:
    """Serve an editor until it is gone; return the exit code. Raises UsageError."""
    if not all(stat.S_ISFIFO(os.fstat(n).st_mode) or stat.S_ISSOCK(os.fstat(n).st_mode) for n in (0, 1)):
        raise UsageError(_NO_EDITOR)
    # The package logs to the root, whose last resort is standard error.
    logging.getLogger().addHandler(logging.NullHandler())
    output = os.dup(1)
    os.dup2(2, 1)
    asyncio.run(_serve(config, output))
    return 0
