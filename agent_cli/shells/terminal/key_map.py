"""The keys of the application: the bindings of each action, the user's own keys, and the list of keys.

`[terminal.keys]` in the user's settings binds other keys: `search = "ctrl-t"`; separate alternatives with a comma, keys
of a sequence with a space; "" binds none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from agent_cli import UsageError
from agent_tools.record import Value
from agent_tools.text import one_line

# Keys as prompt-toolkit names them, pressed one after the other.
KeySequence = tuple[str, ...]


class KeyAction(Value):
    """An action that keys are bound to.

    keys: as written in settings.
    help: a few words for the list of keys.
    """

    name: str
    keys: str
    help: str


ACTIONS = (
    KeyAction("mode", "shift-tab", "next approval mode"),
    KeyAction("newline", "alt-enter, ctrl-j", "new line"),
    KeyAction("expand", "ctrl-o", "last call in full"),
    KeyAction("search", "ctrl-r", "search your prompts"),
    KeyAction("send_now", "ctrl-s", "send at once"),
    KeyAction("editor", "ctrl-x ctrl-e", "edit in $EDITOR"),
    KeyAction("record", "ctrl-x ctrl-r", "steps with evidence"),
    KeyAction("paste_image", "ctrl-v", "paste an image"),
    KeyAction("clear_screen", "ctrl-l", "clear the screen"),
    KeyAction("suspend", "ctrl-z", "suspend (fg resumes)"),
    KeyAction("leave", "ctrl-d", "leave (empty line)"),
)
_BY_NAME = {action.name: action for action in ACTIONS}
# Keys that cannot be bound without Alt.
_RESERVED = {"enter", "tab", "escape", "esc", "backspace", "up", "down", "left", "right", "space"}
# Control keys that terminals send for Enter, Tab and Backspace, and the one that always interrupts.
_UNBINDABLE = {"c-c", "c-m", "c-i", "c-h"}
_PREFIXES = {"ctrl": "c", "control": "c", "c": "c", "alt": "m", "meta": "m", "a": "m", "m": "m", "shift": "s", "s": "s"}
_KEY_NAME = re.compile(r"f([1-9]|1\d|2[0-2])|home|end|insert|delete|pageup|pagedown|up|down|left|right|tab|enter")
_SYNTAX_HINT = "write it as ctrl-t, alt-t, f5 or ctrl-x ctrl-t"


class KeyMap:
    """The keys of every action.

    own: keys by action, from the settings.
    newline: the key as which Alt-Enter arrives.
    Raises UsageError for an unknown action, a key that cannot be bound, or a key with two actions.
    """

    def __init__(self, own: Mapping[str, str], newline: str) -> None:
        self._newline = newline
        if unknown := next((name for name in own if name not in _BY_NAME), None):
            import difflib

            near = difflib.get_close_matches(unknown, _BY_NAME, 1)
            known = f"did you mean {near[0]}?" if near else f"there are {', '.join(_BY_NAME)}."
            raise UsageError(f"terminal.keys: there is no action {one_line(unknown)}; {known}")
        self._written = {action.name: own.get(action.name, action.keys) for action in ACTIONS}
        self.keys = {name: self._parse_keys(name, text) for name, text in self._written.items()}
        self._reject_conflicts()

    def _parse_keys(self, action: str, text: str) -> tuple[KeySequence, ...]:
        return tuple(
            tuple(key for word in each.split() for key in self._parse_key(action, word))
            for each in text.split(",")
            if each.strip()
        )

    def _parse_key(self, action: str, word: str) -> KeySequence:
        """Return the keys of one word, such as `ctrl-x`; Alt is Esc and the key. Raises UsageError."""
        *prefixes, base = re.split(r"[-+](?=.)", word.strip())
        base = base if len(base) == 1 and "alt" in prefixes else base.lower()
        modifiers = [_PREFIXES.get(prefix.lower(), "?") for prefix in prefixes]
        name = "-".join([p for p in modifiers if p != "m"] + [base])
        plain, letter = "m" not in modifiers, len(base) == 1
        if base == "enter" and modifiers in (["m"], ["s"]):
            return (self._newline,)
        if (base in _RESERVED and plain and modifiers != ["s"]) or (plain and name in _UNBINDABLE):
            raise UsageError(f"terminal.keys.{action}: {one_line(word)} cannot be given to an action.")
        fits = (
            modifiers in (["m"], ["c"]) and (not plain or base.isalpha())
            if letter
            else _KEY_NAME.fullmatch(base) is not None
        )
        if not fits or not base.isascii() or "?" in modifiers or len(set(modifiers)) < len(modifiers):
            raise UsageError(f"terminal.keys.{action}: {one_line(word)} is not a key; {_SYNTAX_HINT}.")
        return (name,) if plain else ("escape", name)

    def _reject_conflicts(self) -> None:
        taken: dict[KeySequence, str] = {}
        for name, sequences in self.keys.items():
            for keys in sequences:
                for other, action in taken.items():
                    if action != name and (keys[: len(other)] == other or other[: len(keys)] == keys):
                        both = f"{format_key_names(self._written[name])} is the key of both {action} and {name}"
                        raise UsageError(f'terminal.keys: {both}; give one of them another, or none with "".')
                taken[keys] = name

    def format_keys(self, action: str) -> str:
        """Return the keys of an action as printed on keyboards: `Ctrl-X Ctrl-E`; "" for none."""
        return format_key_names(self._written[action])

    def rows(self) -> list[tuple[str, str]]:
        """Return the keys with their descriptions, the most useful first, for the list that `?` shows."""
        own = [(self.format_keys(action.name), action.help) for action in ACTIONS]
        return [*_FIXED, *((keys, text) for keys, text in own if keys)]


_FIXED = (
    ("?", "this list"),
    ("/", "commands"),
    ("@", "mention a file"),
    ("!", "run a command (!! hides)"),
    ("#", "add a note to memory"),
    ("Enter", "send; queue during a turn"),
    ("Tab", "complete"),
    ("Esc", "interrupt; twice: rewind"),
    ("Up", "unqueue; earlier messages"),
    ("Ctrl-C", "clear; twice: leave"),
)


def format_key_names(written: str) -> str:
    """Return keys as printed on keyboards: `ctrl-x ctrl-e` is Ctrl-X Ctrl-E."""

    def word(text: str) -> str:
        *prefixes, base = text.split("-")
        names = {"c": "Ctrl", "m": "Alt", "s": "Shift"}
        modifiers = [names[_PREFIXES[p.lower()]] for p in prefixes]
        return "-".join([*modifiers, base.upper() if len(base) == 1 or base[1:].isdigit() else base.title()])

    return ", ".join(" ".join(map(word, each.split())) for each in written.split(",") if each.strip())
