"""`--model replay:FILE`: the recorded answers of a run, for requests that are the same; without key and network.

The recording stands for the model it was made with. A request may come in another order than the recorded ones, as
those of parallel sub-agents do; one that none of the recorded is equal to ends the run, and the error says which round
and what part of it differs first.
"""

from __future__ import annotations

import difflib
import json
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from agent_cli.core.results import Failure
from agent_cli.providers.base import Chunk, ModelError, Request
from agent_cli.providers.recording import OPTIONS, Normalizer, read_recording
from agent_tools.cancel import CancelToken
from agent_tools.record import from_json
from agent_tools.text import shorten

_DIFF_LINES, _DIFF_WIDTH = 12, 200
# What else a difference may be about than what a user would look for.
_HINT = "A replay runs the tools again, so files and commands must give what they gave when it was recorded."


class Replay:
    """A transport over a recording. One for all models of a run: fallbacks and sub-agents were recorded too.

    models: the further models that were opened, by the name they were asked for.
    """

    def __init__(self, path: Path, folders: Mapping[str, str], env: Mapping[str, str]) -> None:
        """Raise ModelError for a file that is no recording."""
        try:
            _, self._rounds, self.models = read_recording(path)
        except ValueError as error:
            raise ModelError(Failure("replay", f"{error}.")) from None
        self._path = path
        self._normalize = Normalizer(folders, env)
        self._lock = threading.Lock()
        self._used: set[int] = set()
        self._asked = 0

    def stream(self, request: Request, cancel: CancelToken) -> Iterator[Chunk]:
        cancel.check()
        entry = self._find(self._normalize.request(request), aside=request.aside)
        for chunk in entry["answer"]:
            cancel.check()
            yield from_json(Chunk, chunk)
        if failure := entry.get("failure"):
            raise ModelError(from_json(Failure, failure))

    def _find(self, request: dict[str, Any], *, aside: bool) -> dict[str, Any]:
        """Return the first unused round with this request. Raises ModelError."""
        with self._lock:
            self._asked += 1
            left = [n for n in range(len(self._rounds)) if n not in self._used]
            for number in left:
                if self._rounds[number]["request"] == request:
                    self._used.add(number)
                    return self._rounds[number]
            if not left:
                raise ModelError(Failure("replay", f"The replay differs: {self._path} has {len(self._rounds)} rounds, "
                                                   f"and round {self._asked} came. {_HINT}"))  # fmt: skip
            near = next((n for n in left if self._rounds[n]["aside"] == aside), left[0])
        expected = self._rounds[near]
        where, diff = first_difference(expected["request"], request)
        text = f"The replay differs in round {expected['round']} of {self._path}: {where}.\n{diff}\n{_HINT}"
        raise ModelError(Failure("replay", text))


def first_difference(recorded: dict[str, Any], now: dict[str, Any]) -> tuple[str, str]:
    """Return the first part of two requests that differs, in words, and a short diff of it."""
    for name in OPTIONS:
        if recorded.get(name) != now.get(name):
            return f"the option {name}", _diff(recorded.get(name), now.get(name))
    if recorded.get("system") != now.get("system"):
        return "the system prompt", _diff(recorded.get("system"), now.get("system"))
    if recorded.get("tools") != now.get("tools"):
        old, new = ({tool["name"]: tool for tool in r.get("tools", [])} for r in (recorded, now))
        if list(old) != list(new):
            return "which tools there are", _diff("\n".join(old), "\n".join(new))
        name = next(n for n in old if old[n] != new[n])
        return f"the tool {name}", _diff(old[name], new[name])
    before, after = recorded["messages"], now["messages"]
    for number, (one, other) in enumerate(zip(before, after, strict=False), 1):
        if one != other:
            return f"message {number}, {_described(one)}", _diff(one, other)
    return "the number of messages", _diff(str(len(before)), str(len(after)))


def _described(message: dict[str, Any]) -> str:
    if message["type"] == "ToolMessage":
        return f"the result of {message['name']} ({message['call_id']})"
    return "of the user" if message["type"] == "UserMessage" else "of the model"


def _diff(before: Any, after: Any) -> str:
    old, new = (_lines(value) for value in (before, after))
    rows = list(difflib.unified_diff(old, new, "recorded", "now", n=0, lineterm=""))[2:]
    shown = [f"  {shorten(row, _DIFF_WIDTH)}" for row in rows if not row.startswith("@@")]
    more = [f"  ... and {len(shown) - _DIFF_LINES} more lines"] if len(shown) > _DIFF_LINES else []
    return "\n".join((*shown[:_DIFF_LINES], *more))


def _lines(value: Any) -> list[str]:
    """Return the lines of a text, or those of JSON data with its texts on lines of their own."""
    if isinstance(value, str):
        return value.splitlines()
    if isinstance(value, dict):
        return [line for name, item in value.items() for line in _prefixed(name, _lines(item))]
    if isinstance(value, list):
        return [line for item in value for line in _lines(item)]
    return [json.dumps(value)]


def _prefixed(name: str, lines: list[str]) -> list[str]:
    return [f"{name}: {lines[0]}", *lines[1:]] if lines else [f"{name}:"]
