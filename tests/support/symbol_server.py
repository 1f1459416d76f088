"""A language server that finds words: every whole word of a name in its files, but in comments, is the same symbol.

Its first argument says how it behaves: good, units (counts UTF-16 units, else characters), outside (a rename changes
a file beside the workspace), files (a rename renames a file, too), stale (a rename fits an older text), whole (a rename
replaces whole texts), early (the first answers are empty, then it indexes), part (the first answer is about the open
documents only), busy (it never ends indexing), deaf (it answers no question), dead (it ends at a question), refuses.
It writes each method to the pipe `log` beside it.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any
from urllib.parse import unquote

MODE = sys.argv[1] if len(sys.argv) > 1 else "good"
LOG = Path(__file__).with_name("log")
ROOT = Path.cwd()
documents: dict[str, str] = {}
questions = 0


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


def units(text: str) -> int:
    return sum(1 + (MODE == "units" and char > "\uffff") for char in text)


def texts() -> dict[str, str]:
    on_disk = {path.as_uri(): path.read_text() for path in sorted(ROOT.rglob("*.go"))}
    if MODE == "part" and questions == 1:
        on_disk = {uri: text for uri, text in on_disk.items() if uri in documents}
    return on_disk | {uri: text for uri, text in documents.items() if uri in on_disk}


def span(line: int, text: str, start: int, end: int) -> dict[str, Any]:
    return {
        "start": {"line": line, "character": units(text[:start])},
        "end": {"line": line, "character": units(text[:end])},
    }


def word_at(uri: str, position: dict[str, int]) -> str:
    line = documents[uri].splitlines()[position["line"]]
    found = [m[0] for m in re.finditer(r"\w+", line) if units(line[: m.start()]) == position["character"]]
    return found[0] if found else ""


def uses(word: str) -> list[dict[str, Any]]:
    return [
        {"uri": uri, "range": span(number, line, *match.span())}
        for uri, text in texts().items()
        for number, line in enumerate(text.splitlines())
        for match in re.finditer(rf"\b{word}\b", line.partition("//")[0])
        if word
    ]


def renamed(word: str, new: str) -> dict[str, Any] | None:
    changes: dict[str, list[dict[str, Any]]] = {}
    for use in uses(word):
        changes.setdefault(use["uri"], []).append({"range": use["range"], "newText": new})
    if MODE == "whole":
        for uri, text in texts().items():
            end = {"line": len(text.splitlines()) + 1, "character": 0}
            whole = {"range": {"start": {"line": 0, "character": 0}, "end": end}, "newText": text.replace(word, new)}
            changes[uri] = [whole]
    if MODE == "outside":
        changes[(ROOT.parent / "outside.go").as_uri()] = next(iter(changes.values()))
    if MODE == "stale":
        changes = {uri: [{**e, "range": span(0, "x" * 99, 0, 3)} for e in edits] for uri, edits in changes.items()}
    if MODE == "files":
        uri = next(iter(changes))
        return {"documentChanges": [{"kind": "rename", "oldUri": uri, "newUri": f"{uri}.go"}]}
    return {"changes": changes} if changes else None


def answer(method: str, params: dict[str, Any]) -> Any:
    uri = params["textDocument"]["uri"]
    if method == "textDocument/documentSymbol":
        return [
            {
                "name": m[1],
                "kind": 12,
                "range": span(n, line, 0, len(line)),
                "selectionRange": span(n, line, *m.span(1)),
            }
            for n, line in enumerate(documents[uri].splitlines())
            if (m := re.match(r"func (\w+)", line))
        ]
    word = word_at(uri, params["position"])
    if method == "textDocument/definition":
        return [
            use
            for use in uses(word)
            if f"func {word}" in texts()[use["uri"]].splitlines()[use["range"]["start"]["line"]]
        ]
    return uses(word) if method == "textDocument/references" else renamed(word, params["newName"])


def progress(kind: str) -> None:
    send({"method": "$/progress", "params": {"token": "t", "value": {"kind": kind}}})


def main() -> None:
    global questions
    log("started")
    while True:
        message = receive()
        method, params = message.get("method"), message.get("params") or {}
        log(str(method or "answer"))
        if method == "initialize":
            offers = dict.fromkeys(("definitionProvider", "referencesProvider", "renameProvider"), True)
            offers |= {"documentSymbolProvider": {}, "textDocumentSync": 1}
            offers |= {} if MODE == "units" else {"positionEncoding": "utf-32"}
            send({"id": message["id"], "result": {"capabilities": offers}})
        elif method == "initialized" and MODE == "busy":
            progress("begin")
        elif method == "textDocument/didOpen":
            documents[params["textDocument"]["uri"]] = params["textDocument"]["text"]
        elif method == "textDocument/didChange":
            documents[params["textDocument"]["uri"]] = params["contentChanges"][0]["text"]
        elif method == "textDocument/didClose":
            documents.pop(params["textDocument"]["uri"], None)
        elif method == "workspace/didChangeWatchedFiles":
            for change in params["changes"]:
                log(f"{change['type']} {Path(unquote(change['uri'])).name}")
        elif method in ("shutdown", "exit"):
            if method == "exit":
                sys.exit(0)
            send({"id": message["id"], "result": None})
        elif method and "id" in message:
            questions += 1
            if MODE == "dead":
                sys.exit(1)
            if MODE == "refuses":
                send({"id": message["id"], "error": {"code": 1, "message": "cannot rename this"}})
            elif MODE == "early" and questions == 1:
                send({"id": message["id"], "result": None})
                progress("begin")
                progress("end")
            elif MODE != "deaf":
                send({"id": message["id"], "result": answer(method, params)})


if __name__ == "__main__":
    main()
