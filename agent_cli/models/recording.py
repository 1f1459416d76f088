"""Record model calls (`--record FILE`) and replay them (`--model replay:FILE`).

A recording has one JSON line for each request with its answer, without secrets. It is made by wrapping a client, so any
model can be recorded. The first line describes the run. What differs between machines is replaced in requests:
folders, the date, the system, the state of git, durations (`Normalizer`). A request contains only the messages that
the previous one did not have.

A replay returns the recorded answers for equal requests, without key and network. Requests may come in another order
than recorded, as those of parallel sub-agents do; one without an equal ends the run, with an error that says which
round and which part of it differs first.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from agent_cli.kernel.redact import Redactor
from agent_cli.kernel.results import Failure
from agent_cli.kernel.version import __version__
from agent_cli.models.base import Chunk, ModelClient, ModelError, Notice, Request
from agent_tools.cancel import CancelToken
from agent_tools.fs.safe_files import open_regular, read_regular
from agent_tools.record import from_json, to_json
from agent_tools.text import shorten

_DIFF_LINES, _DIFF_WIDTH = 12, 200
# Shown with every difference, whose cause is often not in the request itself.
_HINT = "A replay runs the tools again, so files and commands must give what they gave when it was recorded."


class ReplayClient:
    """A client that replays a recording, shared by all models of a run: fallbacks and sub-agents were recorded, too.

    models: the further models that were opened, by requested name.
    """

    def __init__(self, path: Path, folders: Mapping[str, str], env: Mapping[str, str]) -> None:
        """Open a recording. Raises ModelError if the file is not one."""
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
            return f"message {number}, {_describe_message(one)}", _diff(one, other)
    return "the number of messages", _diff(str(len(before)), str(len(after)))


def _describe_message(message: dict[str, Any]) -> str:
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
    """Return the lines of a text, or of JSON data with each text on its own lines."""
    if isinstance(value, str):
        return value.splitlines()
    if isinstance(value, dict):
        return [line for name, item in value.items() for line in _prefixed(name, _lines(item))]
    if isinstance(value, list):
        return [line for item in value for line in _lines(item)]
    return [json.dumps(value)]


def _prefixed(name: str, lines: list[str]) -> list[str]:
    return [f"{name}: {lines[0]}", *lines[1:]] if lines else [f"{name}:"]


FORMAT, VERSION = "agent-recording", 1
# The parts of a request that a replay compares, besides messages, system prompt and tools.
OPTIONS = ("model", "max_tokens", "temperature", "effort", "thinking_tokens", "tool_choice", "json_schema")
_WORDS = r"(?<![\w.-])"
_LINES: tuple[tuple[str, str], ...] = (
    (r"(?m)^(?:Date: |Today is )\d{4}-\d\d-\d\d\.?$", "Today is <date>."),
    (r"(?m)^(?:System: |The system is ).*; commands run in bash\.?$", "The system is <system>; commands run in bash."),
    # The lines of changed files and commits that follow it have no common beginning.
    (
        r"(?ms)^(?:Git repository: |The git repository is |There is (?:a|no) git repository)"
        r".*?(?=^System: |^Date: |^Model: |^The system is |^Today is |^The model is |\n\n|\Z)",
        "The git repository is <git>.\n",
    ),
)
_PLACES: tuple[tuple[str, str], ...] = (
    (r"\b\d+(?:\.\d+)? ?(?:ms|s)\b(?=[\],;)]|$)", "<time>"),
    (r"\b\d+ min(?: \d+ s)?\b(?=[\],;)]|$)", "<time>"),
    (r"\b\d{4}-\d\d-\d\d(?=[ T]\d\d:\d\d)[ T][\d:.]+(?:Z|[+-]\d\d:?\d\d)?", "<moment>"),
    (rf"{_WORDS}[0-9a-f]{{8}}-[0-9a-f]{{4}}-[0-9a-f]{{4}}-[0-9a-f]{{4}}-[0-9a-f]{{12}}\b", "<uuid>"),
    (r"/tmp/tmp[a-z0-9_]{8}\b", "<tmp>"),
)


# Bytes of a recording that is read.
_MAX_BYTES = 1 << 28


class Normalizer:
    """Replaces what differs between runs in the texts of a request.

    folders: placeholders by path.
    """

    def __init__(self, folders: Mapping[str, str], env: Mapping[str, str]) -> None:
        known = {path: name for path, name in folders.items() if len(path) > 1}
        temporary = os.path.realpath(tempfile.gettempdir())
        known.setdefault(temporary, "<tmp>")
        spelled = {os.path.realpath(path): name for path, name in known.items()} | known
        self._folders = spelled
        paths = "|".join(re.escape(path) for path in sorted(spelled, key=len, reverse=True))
        self._paths = re.compile(rf"(?:{paths})(?![\w-]|\.\w)") if paths else None
        self._redact = Redactor(env)

    def __call__(self, value: Any) -> Any:
        """Return JSON data with every text in it normalized and free of secrets."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {key: self(item) for key, item in value.items()}
        return [self(item) for item in value] if isinstance(value, list) else value

    def text(self, text: str) -> str:
        """Return a text without secrets, with placeholders for what differs between runs."""
        text = self._redact(text)
        for pattern, name in _LINES:
            text = re.sub(pattern, name, text)
        if self._paths is not None:
            text = self._paths.sub(lambda found: self._folders[found[0]], text)
        for pattern, name in _PLACES:
            text = re.sub(pattern, name, text)
        return text

    def request(self, request: Request) -> dict[str, Any]:
        """Return the parts of a request that are recorded and compared."""
        plain = to_json(request)
        for message in plain["messages"]:
            message.pop("provider_id", None)
        found = {name: plain[name] for name in OPTIONS if plain.get(name) is not None}
        found["system"] = plain["system"]
        found["tools"] = plain.get("tools", [])
        found["messages"] = plain["messages"]
        return self(found)  # type: ignore[no-any-return]


class RecordingFile:
    """The file of a recording. Several clients and threads write to it, each line whole."""

    def __init__(self, path: str, head: Mapping[str, Any], normalize: Normalizer, redact: Redactor) -> None:
        """Create or truncate the file, mode 0600. Raises OSError."""
        self._path = path
        self._normalize = normalize
        self._redact = redact
        self._lock = threading.Lock()
        self._before: dict[str, Any] = {}
        self._number = 0
        os.close(open_regular(path, os.O_WRONLY | os.O_TRUNC | os.O_CREAT))
        self._line({"format": FORMAT, "version": VERSION, "agent_version": __version__, **head})

    def add(self, request: Request, label: str, chunks: list[Any], failure: dict[str, Any] | None) -> None:
        """Add a request with its answer.

        label: the model that was called.
        """
        plain = self._normalize.request(request)
        with self._lock:
            before = self._before
            old = before.get("messages", [])
            same = 0
            while same < min(len(old), len(plain["messages"])) and old[same] == plain["messages"][same]:
                same += 1
            self._number += 1
            line: dict[str, Any] = {"round": self._number, "label": label, "aside": request.aside}
            line["same_messages"] = same
            line["request"] = {
                **{k: v for k, v in plain.items() if k not in ("messages", "system", "tools")},
                **{k: plain[k] for k in ("system", "tools") if plain[k] != before.get(k)},
                "messages": plain["messages"][same:],
            }
            line["answer"] = chunks
            if failure is not None:
                line["failure"] = failure
            self._before = plain
            self._line(line)

    def add_model(self, name: str, model: Mapping[str, Any]) -> None:
        """Add a further model that was opened, by its requested name."""
        with self._lock:
            self._line({"model": name, "resolved": model})

    def _line(self, data: dict[str, Any]) -> None:
        text = self._redact(json.dumps(data))
        fd = open_regular(self._path, os.O_WRONLY | os.O_APPEND)
        with os.fdopen(fd, "w", encoding="utf-8") as file:
            file.write(text + "\n")


class RecordingClient:
    """A client that records the calls of another client."""

    def __init__(self, inner: ModelClient, label: str, file: RecordingFile) -> None:
        self._inner = inner
        self._label = label
        self._file = file

    def stream(self, request: Request, cancel: CancelToken) -> Iterator[Chunk]:
        chunks: list[Any] = []
        try:
            for chunk in self._inner.stream(request, cancel):
                if not isinstance(chunk, Notice):
                    chunks.append(to_json(chunk))
                yield chunk
        except ModelError as error:
            self._file.add(request, self._label, chunks, to_json(error.failure))
            raise
        else:
            self._file.add(request, self._label, chunks, None)


Recorded = tuple[dict[str, Any], list[dict[str, Any]], dict[str, dict[str, Any]]]


def read_recording(path: Path) -> Recorded:
    """Return the first line of a recording, its rounds with whole requests, and its further models by name.

    Raises ValueError with a sentence.
    """
    try:
        lines = read_regular(path, _MAX_BYTES).decode("utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"the recording {path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    rounds: list[dict[str, Any]] = []
    models: dict[str, dict[str, Any]] = {}
    before: dict[str, Any] = {}
    try:
        head = json.loads(lines[0])
        if head["format"] != FORMAT:
            raise KeyError
        if head["version"] != VERSION:
            raise ValueError(f"{path} is a recording of another version of agent ({head['agent_version']})")
        for line in filter(None, lines[1:]):
            data = json.loads(line)
            if "resolved" in data:
                models[data["model"]] = data["resolved"]
                continue
            changed = data["request"]
            whole = {**{k: before[k] for k in ("system", "tools") if k in before}, **changed}
            whole["messages"] = [*before.get("messages", [])[: data["same_messages"]], *changed["messages"]]
            rounds.append({**data, "request": whole})
            before = whole
    except (LookupError, TypeError, AttributeError, json.JSONDecodeError):
        raise ValueError(f"{path} is no recording of agent -p --record") from None
    return head, rounds, models
