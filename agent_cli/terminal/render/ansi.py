"""Lines with SGR sequences as the fragments that prompt-toolkit draws, clipped to a width in cells.

Text of Rich as lines: wrapped at words, and as the bytes that a terminal takes.
Sequences that call the user: the title of the window, the bell and the notification (OSC 0, BEL, OSC 9).
Text for the clipboard of the terminal that the user sits at, near or far: the sequence OSC 52.
"""

from __future__ import annotations

import io
import re
from base64 import b64encode
from collections.abc import Iterable
from functools import lru_cache

from prompt_toolkit.utils import get_cwidth
from rich.color import ColorSystem
from rich.console import Console
from rich.style import Style
from rich.text import Text

from agent_tools.text import escape_controls, one_line, shorten

Fragment = tuple[str, str]

_ESCAPE = re.compile(r"\x1b\[([0-9;]*)m|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b\[[0-9;?]*[A-Za-z]")
_ON = {1: "bold", 2: "dim", 3: "italic", 4: "underline", 7: "reverse", 9: "strike"}
_OFF = {22: ("bold", "dim"), 23: ("italic",), 24: ("underline",), 27: ("reverse",), 29: ("strike",)}
_NAMES = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "gray")
_BRIGHT = ("brightblack", *(f"bright{name}" for name in _NAMES[1:7]), "white")
_LEVELS = (0, 95, 135, 175, 215, 255)


@lru_cache(2048)
def fragments(line: str, width: int) -> tuple[Fragment, ...]:
    """The line as styled text of at most `width` cells; tabs are four blanks."""
    found: list[Fragment] = []
    state: dict[str, str] = {}
    position, left = 0, width
    for match in _ESCAPE.finditer(line):
        left = _add(found, line[position : match.start()], state, left)
        position = match.end()
        if match[1] is not None:
            _apply(state, [int(n or 0) for n in match[1].split(";")])
    _add(found, line[position:], state, left)
    return tuple(found)


def _add(found: list[Fragment], text: str, state: dict[str, str], left: int) -> int:
    if not text or left <= 0:
        return left
    shown = clip(text.replace("\t", "    "), left)
    found.append((" ".join(state.values()), shown))
    return left - cells(shown) if len(shown) == len(text) else left - max(cells(shown), 1)


def cells(text: str) -> int:
    """How many cells a text takes as prompt-toolkit draws it: character by character."""
    return len(text) if text.isascii() else sum(get_cwidth(c) for c in text)


def clip(text: str, width: int) -> str:
    """The beginning of a text that fits into `width` cells."""
    if width <= 0:
        return ""
    if text.isascii() or len(text) * 2 <= width:
        return text[:width]
    used = 0
    for index, char in enumerate(text):
        used += get_cwidth(char)
        if used > width:
            return text[:index]
    return text


def wrapped(text: str, width: int) -> list[str]:
    """A line of plain text in rows of at most `width` cells, cut where a terminal would."""
    rows = []
    while text:
        row = clip(text, max(width, 2)) or text[0]
        rows.append(row)
        text = text[len(row) :]
    return rows or [""]


def count_rows(lines: Iterable[str], width: int) -> int:
    """How many rows plain lines take on a terminal of that width."""
    return sum(max(1, -(-cells(line) // max(width, 1))) for line in lines)


def _apply(state: dict[str, str], codes: list[int]) -> None:
    while codes:
        code = codes.pop(0)
        if code == 0:
            state.clear()
        elif code in _ON:
            state[_ON[code]] = _ON[code]
        elif code in _OFF:
            for name in _OFF[code]:
                state.pop(name, None)
        elif code in (38, 48):
            _extended(state, "fg" if code == 38 else "bg", codes)
        elif code in (39, 49):
            state.pop("fg" if code == 39 else "bg", None)
        elif 30 <= code <= 37 or 90 <= code <= 97:
            state["fg"] = "fg:ansi" + (_NAMES[code - 30] if code < 40 else _BRIGHT[code - 90])
        elif 40 <= code <= 47 or 100 <= code <= 107:
            state["bg"] = "bg:ansi" + (_NAMES[code - 40] if code < 50 else _BRIGHT[code - 100])


def _extended(state: dict[str, str], ground: str, codes: list[int]) -> None:
    """A colour of the 256, or one of 16 million."""
    if codes[:1] == [5] and len(codes) > 1:
        state[ground] = f"{ground}:{_indexed(codes[1])}"
        del codes[:2]
    elif codes[:1] == [2] and len(codes) > 3:
        red, green, blue = codes[1:4]
        state[ground] = f"{ground}:#{red:02x}{green:02x}{blue:02x}"
        del codes[:4]


def _indexed(number: int) -> str:
    if number < 16:
        return "ansi" + (_NAMES + _BRIGHT)[number]
    if number < 232:
        red, rest = divmod(number - 16, 36)
        green, blue = divmod(rest, 6)
        return f"#{_LEVELS[red]:02x}{_LEVELS[green]:02x}{_LEVELS[blue]:02x}"
    grey = 8 + 10 * (min(number, 255) - 232)
    return f"#{grey:02x}{grey:02x}{grey:02x}"


_CONSOLE = Console(file=io.StringIO(), width=80, color_system=None, force_terminal=False, legacy_windows=False)


def wrap(text: Text, width: int) -> list[Text]:
    """The text in lines of at most `width` cells; none for a text of blanks.

    Words that are longer are cut, but an address is left whole for the terminal to wrap: it can be clicked and copied.
    """
    if not text.plain.strip():
        return []
    lines = text.wrap(_CONSOLE, max(width, 1), overflow="ignore" if "://" in text.plain else "fold")
    for line in lines:
        line.rstrip()
    return list(lines)


def to_ansi(text: Text, *, color: bool = True) -> str:
    """One line with its styles as SGR sequences, and no other sequence in it: whatever the text has is spelled out.

    color: False keeps bold, italic and underline, as NO_COLOR has it.
    """
    out = []
    for segment in text.render(_CONSOLE, end=""):
        words = escape_controls(segment.text).replace("\n", "\\n")
        style = segment.style
        if style and words:
            style = _bare(style, color=color)
            out.append(style.render(words, color_system=ColorSystem.STANDARD))
        else:
            out.append(words)
    return "".join(out)


def _bare(style: Style, *, color: bool) -> Style:
    """The style without a link, which would be a sequence of its own, and without colours unless they are wanted."""
    if style.link:
        style = style.update_link(None)
    return style if color else style.without_color


SAVE_TITLE, RESTORE_TITLE = "\x1b[22;0t", "\x1b[23;0t"
RING = "\a\x1b]9;agent waits for you\x1b\\"
# Work that took so long has let the user look away.
LONG = 5.0


def title(task: str, state: str = "") -> str:
    """The sequence for a title. task: what is being done, in the user's words. state: a sign before it."""
    words = shorten(one_line(task), 60)
    name = f"agent: {words}" if words else "agent"
    return f"\x1b]0;{state}{name}\a"


# What xterm takes, and with it nearly all others; some take more, none tells.
LIMIT = 74_994


def to_clipboard(text: str) -> str | None:
    """The sequence that puts a text on the clipboard; None where it is more than terminals take.

    Nothing of the text is in the sequence but in Base64, so nothing in it can end the sequence or begin another.
    """
    coded = b64encode(text.encode("utf-8", "replace")).decode("ascii")
    return f"\x1b]52;c;{coded}\x07" if len(coded) <= LIMIT else None
