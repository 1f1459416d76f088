"""Look at an answer as it arrives: what may be calls is held back, what is repeated without end is noticed.

Users do not see calls that a model wrote as text as an answer. Small models repeat a text until their window is full.

Front ends that show calls being written get an event for each part. A call is announced only if it will keep its name
and ID: one of a tool that is not on offer, or with an ID that was used before, is completed in
`sampling.with_valid_calls`, after the answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from agent_cli.core.events import ArgumentsDelta, CallStarted, Event, ThinkingSigned
from agent_cli.engine.turn import Turn
from agent_cli.providers.base import Chunk, ThinkingChunk, ToolCallDelta, ToolCallStart


class AnswerPieces:
    """The calls of one answer that are announced."""

    def __init__(self, turn: Turn) -> None:
        self._known = turn.deps.state.ids
        self._tools = turn.deps.tools
        self._calls: dict[int, str] = {}

    def events(self, chunk: Chunk) -> Iterator[Event]:
        """Yield the events of a chunk."""
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


# Characters after which the end of the text is examined again, and which of it are looked for before.
_STEP, _PROBE = 128, 48
# The longest text whose repetition is noticed; how often it is repeated at least, and in how many characters.
_LONGEST, _TIMES, _LEAST = 1_000, 6, 2_000
# White space that no text has; a server that waits for a call lets a model write nothing else.
_BLANK = 200


class RepeatedText:
    """Receives the pieces of a text as they arrive."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._new = 0
        self._end = ""

    def feed(self, text: str) -> bool:
        """Add a piece; return True if the text ends in six repetitions (2,000 characters) or blank lines."""
        self._pieces.append(text)
        self._new += len(text)
        if self._new < _STEP:
            return False
        self._end = (self._end + "".join(self._pieces))[-_LONGEST * _TIMES :]
        self._pieces, self._new = [], 0
        return bool(repetition(self._end))


def repetition(text: str) -> int:
    """Return how many characters at the end of a text are repetitions of what is before them; 0 if too few."""
    probe = text[-_PROBE:]
    before = text.rfind(probe, max(0, len(text) - _PROBE - _LONGEST), len(text) - 1)
    unit = len(text) - _PROBE - before
    if not probe.strip():
        blank = len(text) - len(text.rstrip())
        return blank if blank >= _BLANK else 0
    if before < 0:
        return 0
    place = len(text) - 1
    while place >= unit and text[place] == text[place - unit]:
        place -= 1
    same = len(text) - 1 - place
    return same if same + unit >= max(_LEAST, unit * _TIMES) else 0


# How text may begin that models write for calls alone.
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
LONGEST_LEAD = 300
# Characters of a text that tell whether it may be a call.
_TELLING = 200
_OPENERS = "`~{[<"
_MAY_OPEN = r"(?:^|\n)[ \t]*(?=[`~{\[<])"
_JSON = r"[\s\[{]*[\"'\u201c]?(\w*)"


class HeldText:
    """Passes on the text of an answer as it arrives; what may be calls is held back until the answer is whole.

    passed: the text before it.
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
        """Return what to show of the answer now."""
        if self._held:
            self._held.append(text)
            return self._reconsidered()
        if self._decided:
            return text
        start = 0 if not self.passed and _may_become_call(text) else self._opening(text)
        if start is None:
            self.passed += text
            self._decided = len(self.passed) > LONGEST_LEAD
            return text
        self.passed += text[:start]
        self._held = [text[start:]]
        return text[:start] + self._reconsidered()

    def release(self) -> str:
        """Return what is held back, to be shown after all."""
        held, self._held = self.held, []
        return held

    def _opening(self, text: str) -> int | None:
        """Return where a line begins in the next text as calls do."""
        if not any(char in text for char in _OPENERS):
            return None
        line = self.passed.rpartition("\n")[2]
        before = "x" if line.strip() else line
        found = re.search(_MAY_OPEN, before + text)
        return None if found is None else max(0, found.end() - len(before))

    def _reconsidered(self) -> str:
        """Return the held text if it has turned out to be no call."""
        if self._decided:
            return ""
        if _may_become_call(held := self.held):
            self._decided = len(held) > _TELLING
            return ""
        self._decided = True
        return self.release()


def _may_become_call(text: str) -> bool:
    """Return True if text may go on to be a call."""
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
