"""An editor that serves the IDE protocol, in the process of the test: a real WebSocket server and a lock file."""

from __future__ import annotations

import json
import os
import queue
import threading
from pathlib import Path
from typing import Any

from websockets.exceptions import WebSocketException
from websockets.sync.server import Server, ServerConnection, serve

TOKEN = "0123456789abcdef0123456789abcdef"
TOOLS = ("openDiff", "openFile", "getDiagnostics", "getCurrentSelection", "getOpenEditors")
PATIENCE = 60.0


class StandIn:
    """An editor of one workspace.

    connections: the headers of every connection that was let in. refused: how many were not.
    diffs: arguments of openDiff, as they come. closed: names of the tabs that were closed. opened: files.
    diagnostics: what getDiagnostics answers. connected: the parameters of `ide_connected`, as they come.
    """

    def __init__(self, home: Path, *folders: Path, name: str = "Standin", tools: tuple[str, ...] = TOOLS) -> None:
        self.name, self.tools = name, tools
        self.connections: list[dict[str, str]] = []
        self.refused = 0
        self.diffs: queue.Queue[dict[str, Any]] = queue.Queue()
        self.connected: queue.Queue[dict[str, Any]] = queue.Queue()
        self.closed: queue.Queue[str] = queue.Queue()
        self.opened: list[str] = []
        self.diagnostics: list[dict[str, Any]] = []
        self.asked: list[dict[str, Any]] = []
        self._selection: dict[str, Any] = {"success": False, "message": "No active editor found"}
        self._open: dict[str, tuple[ServerConnection, Any]] = {}
        self._sockets: list[ServerConnection] = []
        self._server: Server = serve(self._serve, "127.0.0.1", 0, process_request=self._check, compression=None)
        self.port = self._server.socket.getsockname()[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.lock = write_lock(home, self.port, *folders, name=name)

    def __enter__(self) -> StandIn:
        return self

    def __exit__(self, *error: object) -> None:
        self.quit()

    def quit(self) -> None:
        """End, as an editor does that the user closes."""
        self.lock.unlink(missing_ok=True)
        for socket in self._sockets:
            socket.close()
        self._server.shutdown()

    def _check(self, socket: ServerConnection, request: Any) -> Any:
        if request.headers.get("x-claude-code-ide-authorization") != TOKEN:
            self.refused += 1
            return socket.respond(401, "Unauthorized")
        self.connections.append(dict(request.headers))
        return None

    def _serve(self, socket: ServerConnection) -> None:
        self._sockets.append(socket)
        try:
            for data in socket:
                self._take(socket, json.loads(data))
        except WebSocketException:
            pass

    def _take(self, socket: ServerConnection, message: dict[str, Any]) -> None:
        method, params = message["method"], message.get("params", {})
        if method == "ide_connected":
            self.connected.put(params)
        if "id" not in message:
            return
        if method == "initialize":
            self._answer(socket, message, {"protocolVersion": "2024-11-05", "capabilities": {"tools": {}}})
        elif method == "tools/list":
            self._answer(socket, message, {"tools": [{"name": name, "inputSchema": {}} for name in self.tools]})
        elif params["name"] == "openDiff":
            self._open[params["arguments"]["tab_name"]] = socket, message["id"]
            self.diffs.put(params["arguments"])
        else:
            self._answer(socket, message, self._call(params["name"], params["arguments"]))

    def _call(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        if tool == "close_tab":
            self.closed.put(arguments["tab_name"])
            return _texts("TAB_CLOSED")
        if tool == "getCurrentSelection":
            return _texts(json.dumps(self._selection))
        if tool == "getDiagnostics":
            self.asked.append(arguments)
            return _texts(json.dumps(self.diagnostics))
        self.opened.append(arguments["filePath"])
        return _texts(f"Opened file: {arguments['filePath']}")

    def _answer(self, socket: ServerConnection, message: dict[str, Any], result: dict[str, Any]) -> None:
        socket.send(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}))

    def _tell(self, method: str, params: dict[str, Any]) -> None:
        for socket in self._sockets:
            socket.send(json.dumps({"jsonrpc": "2.0", "method": method, "params": params}))

    def wait_connected(self) -> dict[str, Any]:
        return self.connected.get(timeout=PATIENCE)

    def select(self, path: Path, text: str, first: int = 0, last: int = 0) -> None:
        """The user selects lines, counted from 0 as in the protocol."""
        end = {"line": last, "character": 0 if text.endswith("\n") else len(text)}
        self._selection = {
            "success": True, "text": text, "filePath": str(path), "fileUrl": path.as_uri(),
            "selection": {"start": {"line": first, "character": 0}, "end": end, "isEmpty": not text},
        }  # fmt: skip
        self._tell("selection_changed", {k: v for k, v in self._selection.items() if k != "success"})

    def mention(self, path: Path, first: int, last: int) -> None:
        self._tell("at_mentioned", {"filePath": str(path), "lineStart": first, "lineEnd": last})

    def wait_diff(self) -> dict[str, Any]:
        return self.diffs.get(timeout=PATIENCE)

    def save(self, tab: str, text: str) -> None:
        """The user saves the diff, with this text."""
        self._decide(tab, _texts("FILE_SAVED", text))

    def reject(self, tab: str) -> None:
        self._decide(tab, _texts("DIFF_REJECTED", tab))

    def _decide(self, tab: str, result: dict[str, Any]) -> None:
        socket, number = self._open.pop(tab)
        self._answer(socket, {"id": number}, result)


def _texts(*texts: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text} for text in texts]}


def write_lock(home: Path, port: int, *folders: Path, name: str = "Standin", **more: Any) -> Path:
    """Write the lock file of an editor; `more` replaces fields."""
    lock = home / ".claude/ide" / f"{port}.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    lock.parent.chmod(0o700)
    data = {
        "pid": os.getpid(), "workspaceFolders": [str(f) for f in folders], "ideName": name, "transport": "ws",
        "authToken": TOKEN,
    }  # fmt: skip
    lock.write_text(json.dumps({**data, **more}))
    lock.chmod(0o600)
    return lock
