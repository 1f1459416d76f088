"""The keys that a model types into a terminal, by name."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agent_tools.results import ToolError

_ESCAPE = "\x1b"
_NAMED = {
    "enter": "\r", "return": "\r", "tab": "\t", "esc": _ESCAPE, "escape": _ESCAPE, "space": " ",
    "backspace": "\x7f", "\\e": _ESCAPE, "shift-tab": "\x1b[Z", "delete": "\x1b[3~",
    "insert": "\x1b[2~", "pageup": "\x1b[5~", "pagedown": "\x1b[6~",
    "f1": "\x1bOP", "f2": "\x1bOQ", "f3": "\x1bOR", "f4": "\x1bOS", "f5": "\x1b[15~", "f6": "\x1b[17~",
    "f7": "\x1b[18~", "f8": "\x1b[19~", "f9": "\x1b[20~", "f10": "\x1b[21~", "f11": "\x1b[23~", "f12": "\x1b[24~",
}  # fmt: skip
# As a terminal sends them, or as its keypad does.
_ARROWS = {"up": "A", "down": "B", "right": "C", "left": "D", "home": "H", "end": "F"}
_OTHER_NAMES = {"del": "delete", "ins": "insert", "pgup": "pageup", "pgdn": "pagedown", "cr": "enter",
                "arrowup": "up", "arrowdown": "down", "arrowleft": "left", "arrowright": "right"}  # fmt: skip
_CONTROL = r"(?:ctrl|control|c)[-+]\s*(.)|\^(.)"
_ALT = r"(?:alt|meta|m)[-+]\s*(.)"
# Written by a model that escapes twice.
_ENDS = {"\\n": "\n", "\\r": "\r", "\\t": "\t"}
_ALONE = r"<?(?:(?:ctrl|control)[-+].|\^[a-z\[\]\\_])>?|<[a-z]+\d*>|\\e"
_HEX = r"\\x([01][0-9a-fA-F])"


def typed_text(text: str, keys: Sequence[str], *, keypad: bool = False) -> str:
    """Return the characters for a text and the keys after it, as a terminal sends them. Raises ToolError.

    A text that ends in an escape (`\\n`), or is nothing but the name of a key (`Ctrl-C`), means that key.
    """
    alone = text.strip()
    if found := re.fullmatch(_HEX, alone):
        text = chr(int(found[1], 16))
    elif re.fullmatch(_ALONE, alone, re.IGNORECASE):
        text = _key(alone, keypad, text)
    elif text[-2:] in _ENDS and text[-3:-2] != "\\":
        text = text[:-2] + _ENDS[text[-2:]]
    # A terminal sends carriage returns for Enter.
    return text.replace("\n", "\r") + "".join(_key(name, keypad) for name in keys)


def _key(name: str, keypad: bool, text: str | None = None) -> str:
    """Return what a key sends. text: what to return for a name that is none; None: raise ToolError."""
    bare = name.strip().strip("<>").strip()
    plain = re.sub(r"[ _]", "", bare).casefold()
    plain = _OTHER_NAMES.get(plain, plain)
    if plain in _NAMED:
        return _NAMED[plain]
    if plain in _ARROWS:
        return f"{_ESCAPE}{'O' if keypad else '['}{_ARROWS[plain]}"
    if found := re.fullmatch(_CONTROL, bare, re.IGNORECASE):
        character = (found[1] or found[2]).upper()
        if "@" <= character <= "_" or character == "?":
            return "\x7f" if character == "?" else chr(ord(character) & 0x1F)
    if found := re.fullmatch(_ALT, bare, re.IGNORECASE):
        return _ESCAPE + found[1]
    if len(name) == 1:
        return name
    if text is not None:
        return text
    known = "Enter, Tab, Esc, Backspace, Delete, Up, Down, Left, Right, Home, End, PageUp, PageDown, F1 to F12"
    raise ToolError(f"There is no key {name!r}. The keys are: {known}, Ctrl-C and the like, Alt-x and the like.")
