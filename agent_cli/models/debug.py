"""`--debug`: requests to the model and its responses, one JSON line each, without secrets."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agent_cli.kernel.events import Event
from agent_cli.kernel.redact import Redactor
from agent_cli.models.base import Chunk, ModelClient, ModelError, Request, TextChunk, ThinkingChunk, ToolCallDelta
from agent_tools.cancel import CancelToken
from agent_tools.fs.safe_files import open_regular
from agent_tools.record import to_json


def open_debug_log(path: Path) -> int:
    """Open the file to append to; return its descriptor. Raises OSError."""
    return open_regular(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)


CATEGORIES = ("api", "hooks", "tools")
_EVENTS = {"hooks": ("HookStarted", "HookRan"), "tools": ("ToolRequested", "ToolFinished")}


def debug_categories(chosen: str | None) -> frozenset[str]:
    """Return the categories that a filter lets through: those named, or all but those with a `!`."""
    # Claude Code writes both hook and hooks, tool and tools.
    words = [word.strip().lower() for word in (chosen or "").split(",") if word.strip()]
    named = {"api" if word == "api" else f"{word.rstrip('s')}s" for word in words if not word.startswith("!")}
    refused = {f"{word.lstrip('!').rstrip('s')}s" if word != "!api" else "api" for word in words if word[0] == "!"}
    return frozenset(c for c in CATEGORIES if c not in refused and (not named or c in named))


class DebugLog:
    """The output of --debug: one JSON line each, without secrets, to a file (mode 0600).

    path: None for standard error.
    """

    def __init__(self, path: Path | None, redact: Redactor, categories: frozenset[str]) -> None:
        self._path = path
        self._redact = redact
        self.categories = categories
        self._kinds = {kind for category in categories for kind in _EVENTS.get(category, ())}

    def event(self, event: Event) -> None:
        """Write an event of the session if its category is wanted."""
        if self._kinds and (plain := to_json(event))["type"] in self._kinds:
            self.write(plain.pop("type"), plain)

    def write(self, kind: str, data: Any, **more: Any) -> None:
        line = self._redact(json.dumps({"time": time.time(), "kind": kind, **more, "data": data}))
        if self._path is None:
            print(line, file=sys.stderr, flush=True)
            return
        with os.fdopen(open_debug_log(self._path), "w", encoding="utf-8") as file:
            file.write(line + "\n")


class RequestLogger:
    """A client that logs the requests to another client and its responses."""

    def __init__(self, inner: ModelClient, log: DebugLog) -> None:
        self._inner = inner
        self._write = log.write

    def stream(self, request: Request, cancel: CancelToken) -> Iterator[Chunk]:
        self._write("request", _without_media(to_json(request)))
        chunks: list[Any] = []
        started = time.monotonic()
        try:
            for chunk in self._inner.stream(request, cancel):
                _collect(chunks, chunk)
                yield chunk
        except ModelError as error:
            chunks.append(to_json(error.failure))
            raise
        finally:
            self._write("response", chunks, ms=round((time.monotonic() - started) * 1000))


def _without_media(request: dict[str, Any]) -> dict[str, Any]:
    """Replace the data of images and PDFs by their length: every request repeats them, and nobody reads them."""
    for item in (item for message in request["messages"] for item in message.get("media", ())):
        item["data"] = f"({len(item['data'])} characters)"
    return request


def _collect(chunks: list[Any], chunk: Chunk) -> None:
    """Add a chunk, joining pieces of the same text or of one call's arguments."""
    plain = to_json(chunk)
    field = {TextChunk: "text", ThinkingChunk: "text", ToolCallDelta: "json"}.get(type(chunk))
    if field and chunks and chunks[-1].get("type") == plain["type"] and chunks[-1].get("index") == plain.get("index"):
        for key, value in plain.items():
            chunks[-1][key] = chunks[-1].get(key, "") + value if key == field else value
    else:
        chunks.append(plain)
