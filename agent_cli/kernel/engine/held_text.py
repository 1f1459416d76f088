"""Inspect an answer while it streams: hold back text that may be calls, detect endless repetition, announce calls.

A call that a model wrote as text must not reach the user as an answer. Small models may repeat a text until their
window is full.

Front ends that show calls being written get an event for each piece. A call is announced only if its name and ID are
final: an unknown tool, or an ID that was used before, is corrected by `sampling.with_valid_calls` after the answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from agent_cli.kernel.engine.turn import Turn
from agent_cli.kernel.events import ArgumentsDelta, CallStarted, Event, ThinkingSigned
from agent_cli.models.base import Chunk, ThinkingChunk, ToolCallDelta, ToolCallStart


class CallAnnouncer:
    """Announces the calls of one answer while they are written."""

    def __init__(self, turn: Turn) -> None:
        self._known = turn.deps.state.ids
        self._tools = turn.deps.tools
        self._calls: dict[int, str] = {}

    def events(self, chunk: Chunk) -> Iterator[Event]:
        """Yield the events for a chunk."""
        if isinstance(chunk, ToolCallDelta):
            if call_id := self._calls.get(chunk.index):
                yield ArgumentsDelta(call_id, chunk.json)
        elif isinstance(chunk, ToolCallStart):
            self._calls.pop(chunk.index, None)
            taken = chunk.id in self._known or chunk.id in self._calls.values()
            if chunk.id and not taken and chunk.name in self._tools:
                self._calls[chunk.index] = chunk.id
                yield CallStarted(chunk.id, chunk.name)
        elif isinstance(chunk, ThinkingChunk) and not chunk.provider and (chunk.signature or chunk.data):
            yield ThinkingSigned(chunk.signature, chunk.data)


# How often the end of the text is examined, and how much of the end is looked for earlier in the text.
_CHECK_EVERY_CHARS, _PROBE_CHARS = 128, 48
# The longest text whose repetition is noticed; the fewest repetitions, and the fewest characters of all together.
_MAX_UNIT_CHARS, _MIN_REPETITIONS, _MIN_REPEATED_CHARS = 1_000, 6, 2_000
# No text has this much white space; a server that enforces a call lets a model write nothing else.
_MIN_BLANK_CHARS = 200


class RepeatedText:
    """Detects endless repetition in a text that arrives in pieces."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._new = 0
        self._end = ""

    def feed(self, text: str) -> bool:
        """Add a piece; return True if the text ends in six repetitions (2,000 characters) or blank lines."""
        self._pieces.append(text)
        self._new += len(text)
        if self._new < _CHECK_EVERY_CHARS:
            return False
        self._end = (self._end + "".join(self._pieces))[-_MAX_UNIT_CHARS * _MIN_REPETITIONS :]
        self._pieces, self._new = [], 0
        return bool(repeated_length(self._end))


def repeated_length(text: str) -> int:
    """Return how many characters at the end of a text only repeat what precedes them; 0 if too few."""
    probe = text[-_PROBE_CHARS:]
    before = text.rfind(probe, max(0, len(text) - _PROBE_CHARS - _MAX_UNIT_CHARS), len(text) - 1)
    unit = len(text) - _PROBE_CHARS - before
    if not probe.strip():
        blank = len(text) - len(text.rstrip())
        return blank if blank >= _MIN_BLANK_CHARS else 0
    if before < 0:
        return 0
    position = len(text) - 1
    while position >= unit and text[position] == text[position - unit]:
        position -= 1
    same = len(text) - 1 - position
    return same if same + unit >= max(_MIN_REPEATED_CHARS, unit * _MIN_REPETITIONS) else 0


# Beginnings that models write only for calls.
MARKERS = (
    "<tool_call", "<toolcall", "<function", "<tools>", "<invoke", "<minimax:tool_call", "<|tool_call",
    "<|channel|>", "<|start|>assistant", "<|python_tag|>", "<\uff5c", "<|DSML|", "[TOOL_CALLS]", "to=functions.",
    "commentary to=", "assistantcommentary to=",
)  # fmt: skip
# The first keys of a call in JSON.
_KEYS = (
    "name", "tool", "function", "tool_name", "action", "recipient_name", "arguments", "parameters", "input", "args",
    "params", "tool_input", "action_input", "type", "id", "call_id", "index", "tool_calls", "function_call",
    "tool_call",
)  # fmt: skip
MAX_LEAD_CHARS = 300
# A text that may still be a call after this many characters is taken for one.
_DECISIVE_CHARS = 200
_OPENERS = "`~{[<"
_MAY_OPEN = r"(?:^|\n)[ \t]*(?=[`~{\[<])"
_JSON = r"[\s\[{]*[\"'\u201c]?(\w*)"


class HeldText:
    """Passes on the text of an answer as it arrives, but holds back what may be calls until the answer is complete.

    passed: the text that was passed on before.
    """

    def __init__(self) -> None:
        self.passed = ""
        self._held: list[str] = []
        self._decided = False

    @property
    def held(self) -> str:
        """The text that is held back."""
        return "".join(self._held)

    def feed(self, text: str) -> str:
        """Add a piece of the answer; return the text to show now."""
        if self._held:
            self._held.append(text)
            return self._reconsider()
        if self._decided:
            return text
        start = 0 if not self.passed and _may_become_call(text) else self._opening(text)
        if start is None:
            self.passed += text
            self._decided = len(self.passed) > MAX_LEAD_CHARS
            return text
        self.passed += text[:start]
        self._held = [text[start:]]
        return text[:start] + self._reconsider()

    def release(self) -> str:
        """Return the held text, to be shown after all."""
        held, self._held = self.held, []
        return held

    def _opening(self, text: str) -> int | None:
        """Return where in the next text a line begins as calls do; None if none does."""
        if not any(char in text for char in _OPENERS):
            return None
        line = self.passed.rpartition("\n")[2]
        before = "x" if line.strip() else line
        found = re.search(_MAY_OPEN, before + text)
        return None if found is None else max(0, found.end() - len(before))

    def _reconsider(self) -> str:
        """Return the held text if it turned out not to be a call; "" otherwise."""
        if self._decided:
            return ""
        if _may_become_call(held := self.held):
            self._decided = len(held) > _DECISIVE_CHARS
            return ""
        self._decided = True
        return self.release()


def _may_become_call(text: str) -> bool:
    """Return True if the text may turn out to be a call."""
    bare = text.lstrip()
    if any(bare.startswith(marker) or marker.startswith(bare) for marker in MARKERS):
        return True
    if bare[0] in "`~":
        fence, line, body = bare.partition("\n")
        if not line:
            return len(fence) < 20 and (len(fence) < 3 or fence.startswith(bare[0] * 3))
        return not body.strip() or _may_become_call(body)
    if bare[0] not in "{[":
        return False
    found = re.match(_JSON, bare)
    word = found[1] if found else ""
    if found is not None and found.end() < len(bare):
        return word in _KEYS
    return any(key.startswith(word) for key in _KEYS)
