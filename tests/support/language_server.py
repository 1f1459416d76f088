"""A language server on standard streams that finds the lines of a document with BAD in them.

Its first argument says how it behaves: push, pull, busy (publishes nothing good before its work is done), hang, die,
garbage, fork, absent. It writes a line for each start and each message to the pipe `log` beside it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

MODE = sys.argv[1] if len(sys.argv) > 1 else "push"
LOG = Path(__file__).with_name("log")
documents: dict[str, str] = {}


def log(text: str) -> None:
    with LOG.open("wb", 0) as file:
        file.write(f"{text}\n".encode())


def send(message: dict[str, Any]) -> None:
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    sys.stdout.buffer.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
    sys.stdout.buffer.flush()


def receive() -> dict[str, Any]:
    size = 0
    while line := sys.stdin.buffer.readline().strip():
        if line.lower().startswith(b"content-length:"):
            size = int(line.partition(b":")[2])
    if not size:
        sys.exit(0)
    message: dict[str, Any] = json.loads(sys.stdin.buffer.read(size))
    return message


def problems(uri: str) -> list[dict[str, Any]]:
    found = []
    for number, line in enumerate(documents[uri].splitlines()):
        if "BAD" in line:
            place = {"line": number, "character": 0}
            problem = {"range": {"start": place, "end": place}, "severity": 1, "code": "E1", "source": "fake"}
            found.append({**problem, "message": f"{line.strip()} is \x1b[31mbad"})
        if "HINT" in line:
            place = {"line": number, "character": 0}
            found.append({"range": {"start": place, "end": place}, "severity": 4, "message": "a hint"})
    return found


def publish(uri: str, version: int, found: list[dict[str, Any]]) -> None:
    params = {"uri": uri, "version": version, "diagnostics": found}
    send({"method": "textDocument/publishDiagnostics", "params": params})


def progress(kind: str) -> None:
    send({"method": "$/progress", "params": {"token": "t", "value": {"kind": kind}}})


def changed(uri: str, version: int) -> None:
    if MODE == "die":
        sys.exit(1)
    if MODE == "garbage":
        sys.stdout.buffer.write(b"hello\r\n\r\n")
        sys.stdout.buffer.flush()
    if MODE == "busy":
        progress("begin")
        publish(uri, version, [])
        time.sleep(0.5)
        progress("end")
    if MODE in ("push", "busy", "fork"):
        publish(uri, version, problems(uri))


def main() -> None:
    log(f"started {os.getpid()}")
    if MODE == "absent":
        sys.exit(1)
    if MODE == "fork":
        subprocess.Popen(["sleep", "1234"], start_new_session=True)
    while True:
        message = receive()
        method, params = message.get("method"), message.get("params") or {}
        log(str(method or "answer"))
        document = params.get("textDocument") or {}
        uri = document.get("uri", "")
        if method == "initialize":
            offered = {"textDocumentSync": 1, **({"diagnosticProvider": {}} if MODE == "pull" else {})}
            send({"id": "own", "method": "workspace/configuration", "params": {"items": [{}]}})
            send({"id": message["id"], "result": {"capabilities": offered}})
        elif method == "textDocument/didOpen":
            documents[uri] = document["text"]
            changed(uri, document["version"])
        elif method == "textDocument/didChange":
            documents[uri] = params["contentChanges"][0]["text"]
            changed(uri, document["version"])
        elif method == "textDocument/diagnostic":
            send({"id": message["id"], "result": {"kind": "full", "items": problems(uri)}})
        elif method == "shutdown":
            send({"id": message["id"], "result": None})
        elif method == "exit":
            sys.exit(0)


if __name__ == "__main__":
    main()
