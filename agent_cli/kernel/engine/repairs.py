"""Repair malformed calls: read JSON that is almost valid, and tell the model what was wrong with it.

Text is accepted only if it can mean just one thing: JSON in a code fence, with a comma before a closing brace, single
or typographic quotes, Python's literals and strings, unquoted keys, raw control characters or needless backslashes in
strings, doubled braces, or closing braces missing or left over at the end. Text that breaks off inside a string, or
after a comma, is read as `UNCLOSED`, since its end is a guess. Quotes inside strings, missing commas and two different
values for a key are errors. Nothing that was written is dropped.

The result of a call tells the model about each kind of repair once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, NoReturn

from agent_cli.kernel.messages import AssistantMessage, Message, ToolCall
from agent_tools.base import Tool
from agent_tools.record import Value

# Nesting limit; all later processing of a value recurses.
MAX_NESTING = 100
_PAIRS = {'"': '"', "'": "'", "\u201c": "\u201d", "\u2018": "\u2019"}
# Raw and triple-quoted strings of Python.
_PYTHON_STRING = re.compile(r"([rR]?)(\"{3}|'{3})|([rR])([\"'])")
_STOPS = {close: re.compile(rf"[{close}\\\x00-\x1f]") for close in _PAIRS.values()}
_ESCAPES = {'"': '"', "'": "'", "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_LITERALS = {"true": True, "false": False, "null": None, "True": True, "False": False, "None": None}
_WHITESPACE = re.compile(r"[ \t\r\n\ufeff\u00a0]*")
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?(?![\w.])")
_WORD = re.compile(r"[A-Za-z_$][\w$-]*")
_HEX = re.compile(r"[0-9a-fA-F]{4}")
_CLOSERS = re.compile(r"[}\]][}\]\s]*+\Z")
_FENCE = re.compile(r"(`{3,}|~{3,})[\w+-]*[ \t]*\r?\n?")


class LenientJsonError(ValueError):
    """The text is not JSON, nor close enough to it; the message says where and why."""


class ReadJson(Value):
    """The content of a text.

    objects: in order.
    repairs: the kinds of repair that were needed.
    """

    objects: tuple[dict[str, Any], ...]
    repairs: tuple[str, ...] = ()


def read_objects(text: str) -> ReadJson:
    """Return the JSON objects of a text: usually one, sometimes several in a row.

    Equal objects count once, and empty ones do not count if there are others. Raises LenientJsonError.
    """
    values, repairs = read_values(text)
    found: list[dict[str, Any]] = []
    for value in values:
        if not isinstance(value, dict):
            raise LenientJsonError(f"expected one object in braces, not {json.dumps(value)[:40]}")
        if value not in found:
            found.append(value)
    if not found:
        raise LenientJsonError("expected one object in braces")
    return ReadJson(tuple(value for value in found if value) or tuple(found[:1]), repairs)


def read_values(text: str) -> tuple[list[Any], tuple[str, ...]]:
    """Return the JSON values that a text consists of, in a code fence or not, and the kinds of repair.

    Raises LenientJsonError.
    """
    bare = text.strip()
    fence = _FENCE.match(bare)
    if fence is not None:
        bare = bare[fence.end() :].removesuffix(fence[1])
    reader = JsonReader(bare)
    if fence is not None:
        reader.repairs["fence"] = None
    found: list[Any] = []
    position = reader.skip_whitespace(0)
    while position < len(bare):
        if found and bare[position] in ",;":
            position = reader.skip_whitespace(position + 1)
        elif found and _CLOSERS.match(bare, position):
            reader.repairs["extra"] = None
            break
        else:
            value, position = reader.value(position)
            found.append(value)
            position = reader.skip_whitespace(position)
    return found, tuple(reader.repairs)


class JsonReader:
    """Reads values at positions of a text; records in `repairs` what had to be repaired."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.repairs: dict[str, None] = {}
        # How many objects and arrays are open.
        self._open = 0

    def value(self, position: int) -> tuple[Any, int]:
        """Return the value at a position and the position after it. Raises LenientJsonError."""
        position = self.skip_whitespace(position)
        char = self.text[position : position + 1]
        if char == "{":
            return self._object(position)
        if char == "[":
            return self._array(position)
        if python := _PYTHON_STRING.match(self.text, position):
            return self._python_string(python)
        if char in _PAIRS and char:
            return self._string(position)
        if number := _NUMBER.match(self.text, position):
            try:
                return json.loads(number[0]), number.end()
            except ValueError:  # more digits than Python reads
                self.fail(position, "the number is too long")
        word = _WORD.match(self.text, position)
        if word is None or word[0] not in _LITERALS:
            self.fail(position, "expected a value")
        if word[0][0] in "TFN":
            self.repairs["literals"] = None
        return _LITERALS[word[0]], word.end()

    def skip_whitespace(self, position: int) -> int:
        """Return the position after white space."""
        found = _WHITESPACE.match(self.text, position)
        return found.end() if found else position

    def fail(self, position: int, why: str) -> NoReturn:
        """Raise LenientJsonError for this position."""
        line = self.text.count("\n", 0, position) + 1
        column = position - (self.text.rfind("\n", 0, position) + 1) + 1
        if position >= len(self.text):
            raise LenientJsonError(f"{why} at the end (line {line}, column {column})")
        near = self.text[max(0, position - 20) : position + 20]
        raise LenientJsonError(f"{why} at line {line}, column {column}, near {near!r}")

    def _object(self, position: int) -> tuple[dict[str, Any], int]:
        self._enter(position)
        position = self.skip_whitespace(position + 1)
        if self.text[position : position + 1] == "{":
            self.repairs["doubled"] = None
            inner, position = self._object(position)
            return inner, self._leave(position, "}")
        found: dict[str, Any] = {}
        while (char := self.text[position : position + 1]) and char != "}":
            start = position
            key, position = self._key(position)
            position = self.skip_whitespace(position)
            if self.text[position : position + 1] != ":":
                self.fail(position, f"expected ':' after the key {key[:40]!r}")
            value, position = self.value(position + 1)
            if found.get(key, value) != value:
                self.fail(start, f"the key {key[:40]!r} has two different values")
            found[key] = value
            position = self._separator(position, "}")
        return found, self._leave(position, "}")

    def _array(self, position: int) -> tuple[list[Any], int]:
        self._enter(position)
        position = self.skip_whitespace(position + 1)
        found: list[Any] = []
        while (char := self.text[position : position + 1]) and char != "]":
            value, position = self.value(position)
            found.append(value)
            position = self._separator(position, "]")
        return found, self._leave(position, "]")

    def _enter(self, position: int) -> None:
        self._open += 1
        if self._open > MAX_NESTING:
            self.fail(position, "nested too deeply")

    def _leave(self, position: int, close: str) -> int:
        """Return the position after the closing character, which may be missing at the end of the text."""
        self._open -= 1
        position = self.skip_whitespace(position)
        if position >= len(self.text):
            if UNCLOSED not in self.repairs:
                self.repairs["closers"] = None
            return position
        if self.text[position] != close:
            self.fail(position, f"expected {close!r}")
        return position + 1

    def _separator(self, position: int, close: str) -> int:
        """Return the position of the next entry, or of the closing character."""
        position = self.skip_whitespace(position)
        char = self.text[position : position + 1]
        if char == ",":
            position = self.skip_whitespace(position + 1)
            if position >= len(self.text):
                self.repairs[UNCLOSED] = None
            elif self.text[position] == close:
                self.repairs["comma"] = None
        elif char not in ("", close):
            self.fail(position, f"expected ',' or {close!r}")
        return position

    def _key(self, position: int) -> tuple[str, int]:
        if self.text[position] in _PAIRS:
            return self._string(position)
        word = _WORD.match(self.text, position)
        if word is None:
            self.fail(position, "expected a key in double quotes")
        self.repairs["keys"] = None
        return word[0], word.end()

    def _string(self, position: int) -> tuple[str, int]:
        opened = self.text[position]
        close = _PAIRS[opened]
        if opened != '"':
            self.repairs["quotes"] = None
        pieces: list[str] = []
        position += 1
        while stop := _STOPS[close].search(self.text, position):
            pieces.append(self.text[position : stop.start()])
            position = stop.end()
            if stop[0] == close:
                return "".join(pieces), position
            if stop[0] == "\\":
                piece, position = self._escape(position)
                pieces.append(piece)
            else:
                self.repairs["control"] = None
                pieces.append(stop[0])
        self.repairs[UNCLOSED] = None
        pieces.append(self.text[position:])
        return self._without_closers("".join(pieces)), len(self.text)

    def _python_string(self, opening: re.Match[str]) -> tuple[str, int]:
        self.repairs["python"] = None
        raw, close = bool(opening[1] or opening[3]), opening[2] or opening[4]
        pieces: list[str] = []
        position = opening.end()
        while stop := re.compile(rf"\\|{close}").search(self.text, position):
            pieces.append(self.text[position : stop.start()])
            position = stop.end()
            if stop[0] == close:
                return "".join(pieces), position
            if raw:
                # A quote behind a backslash does not end the string, and both belong to it.
                piece, position = self.text[position - 1 : position + 1], position + 1
            else:
                piece, position = self._escape(position)
            pieces.append(piece)
        self.repairs[UNCLOSED] = None
        pieces.append(self.text[position:])
        return self._without_closers("".join(pieces)), len(self.text)

    def _escape(self, position: int) -> tuple[str, int]:
        """Return the character that a backslash before this position escapes, and the position after it."""
        char = self.text[position : position + 1]
        if char == "u":
            first = self._unit(position)
            if 0xD800 <= first < 0xDC00 and self.text[position + 5 : position + 7] == "\\u":
                second = self._unit(position + 6)
                if 0xDC00 <= second < 0xE000:
                    return chr(0x10000 + ((first - 0xD800) << 10) + second - 0xDC00), position + 11
            return chr(first), position + 5
        if char in _ESCAPES and char:
            if char == "'":
                self.repairs["escapes"] = None
            return _ESCAPES[char], position + 1
        self.repairs["escapes"] = None
        return "\\", position

    def _unit(self, position: int) -> int:
        found = _HEX.match(self.text, position + 1)
        if found is None:
            self.fail(position - 1, "expected four hexadecimal digits after \\u")
        return int(found[0], 16)

    def _without_closers(self, text: str) -> str:
        """Return an unterminated string without the braces at its end that close the open objects and arrays."""
        bare = text.rstrip()
        for _ in range(self._open):
            if not bare.endswith(("}", "]")):
                return text
            bare = bare[:-1].rstrip()
        return bare


def with_plain_input(call: ToolCall, tool: Tool[Any] | None) -> ToolCall:
    """Return a call with its unreadable arguments read as plain text, if the tool accepts plain text.

    There is no note for the model, which knows the tool as one that takes plain text.
    """
    freeform = tool.freeform if tool is not None else None
    if freeform is None or not freeform.plain:
        return call
    text = call.broken.strip()
    if text.startswith('"'):
        try:
            text = str(json.loads(text)).strip()
        except ValueError:
            return call
    if not re.fullmatch(freeform.plain, text):
        return call
    return call.replace(arguments={freeform.argument: text}, broken="")


# Kinds of repair. The call had another name, which follows.
RENAMED = "name:"
# The call was written as text. The model gets no note: it cannot change that, and a small one repeats what it reads.
WRITTEN = "text"
# The call is one of several whose arguments came as one call.
SPLIT = "split"
# The arguments broke off, so that their end is a guess.
UNCLOSED = "unclosed"
# Repairs of arguments that were almost JSON.
_JSON_REPAIRS = {
    "fence": "the code fence around them was removed",
    "comma": "a comma before a closing brace or bracket was removed",
    "quotes": "single or typographic quotes were read as double quotes",
    "python": "raw or triple-quoted strings of Python were read (write plain ones, with \\\\ and \\n)",
    "literals": "True, False and None were read as true, false and null",
    "keys": "keys without quotes were read",
    "control": "raw line breaks or tabs inside a string were preserved (write \\n and \\t)",
    "escapes": "backslashes that escape nothing in JSON were preserved (write \\\\ for one)",
    "doubled": "doubled braces were read as single ones",
    "closers": "missing braces or brackets were added at the end",
    "extra": "braces or brackets too many at the end were left out",
    UNCLOSED: "they broke off inside a string, which was closed there",
}


def repair_note(history: Sequence[Message], call_id: str) -> str:
    """Return a note on the repairs of a call that no earlier result mentions, to append to its result; "" for none."""
    mentioned: set[str] = set()
    call = _call(history, call_id)
    if call is None or not call.repaired:
        return ""
    for message in history:
        for earlier in message.calls if isinstance(message, AssistantMessage) else ():
            if earlier.id == call_id:
                break
            mentioned.update(earlier.repaired)
    sentences = _sentences([kind for kind in call.repaired if kind not in mentioned], call.name)
    return f"\n\n[{' '.join(sentences)}]" if sentences else ""


def _call(history: Sequence[Message], call_id: str) -> ToolCall | None:
    """Return a call of the newest answer."""
    newest = next((m for m in reversed(history) if isinstance(m, AssistantMessage)), None)
    return next((call for call in newest.calls if call.id == call_id), None) if newest else None


def _sentences(kinds: Sequence[str], tool: str) -> list[str]:
    found = []
    for kind in kinds:
        if kind == SPLIT:
            found.append("Several argument objects came as one call: each was run as a separate call.")
        elif kind.startswith(RENAMED):
            found.append(f"There is no tool named {kind.removeprefix(RENAMED)!r}: {tool} was called.")
    if of_json := [_JSON_REPAIRS[kind] for kind in kinds if kind in _JSON_REPAIRS]:
        found.append(f"The arguments were not valid JSON: {'; '.join(of_json)}.")
    return found
