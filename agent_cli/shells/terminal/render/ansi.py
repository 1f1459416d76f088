"""Convert lines with SGR sequences to prompt-toolkit fragments, clipped to a width in cells.

Convert Rich text to lines: wrapped at words, and as terminal output.
Also the sequences for the window title, the bell and the notification (OSC 0, BEL, OSC 9), and for the clipboard of the
user's terminal, local or remote (OSC 52).

Links (OSC 8), for terminals that support them: addresses, and paths of files that exist in the project. The text is
always the target itself, so that a link never leads elsewhere.
"""

from __future__ import annotations

import io
import os
import re
import socket
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from urllib.parse import quote

from prompt_toolkit.utils import get_cwidth
from rich.color import ColorSystem
from rich.console import Console
from rich.style import Style
from rich.text import Text

from agent_tools.text import escape_controls, one_line, shorten

_SGR = re.compile(r"(\x1b\[[0-9;]*m)")
_LINK_WORD = re.compile(r"https?://[!-;=?-_a-z~]+|(?<![\w/.@~-])(?:\.{1,2}/|/)?\w[\w.@+-]*(?:/[\w.@+-]+)*")
_TRAILING_PUNCTUATION = ".,;:!?)]}'\"*"
_LINK_VARIABLES = ("WT_SESSION", "KITTY_WINDOW_ID", "WEZTERM_PANE", "ALACRITTY_WINDOW_ID", "KONSOLE_VERSION", "DOMTERM")
_LINK_PROGRAMS = ("iTerm.app", "WezTerm", "vscode", "ghostty", "Hyper", "rio")
_LINK_TERMS = ("xterm-kitty", "xterm-ghostty", "foot", "alacritty", "contour")
# Limits: words of a row that are looked up on disk, and length of a row with links.
_MAX_LINK_WORDS, _MAX_LINK_ROW = 20, 2_000


def supports_links(env: Mapping[str, str]) -> bool:
    """Return True if the terminal is known to support links; if in doubt, False."""
    if env.get("STY"):
        return False
    if env.get("TMUX"):
        return env.get("TERM_PROGRAM") == "tmux" and _version_number(env.get("TERM_PROGRAM_VERSION", "")) >= 3.4
    known = any(env.get(name) for name in _LINK_VARIABLES) or env.get("TERM_PROGRAM") in _LINK_PROGRAMS
    vte = env.get("VTE_VERSION", "")
    return known or env.get("TERM", "").startswith(_LINK_TERMS) or (vte.isdigit() and int(vte) >= 5000)


def _version_number(version: str) -> float:
    found = re.match(r"\d+(?:\.\d+)?", version)
    return float(found[0]) if found else 0.0


def with_links(row: str, root: Path, width: int) -> str:
    """Return a row of the screen, which may have colours, with links for addresses and paths of files below `root`.

    width: of the terminal; an address that reaches its edge may continue in the next row, and is not linked.
    """
    if len(row) > _MAX_LINK_ROW or "\x1b]" in row or ("/" not in row and "." not in row):
        return row
    plain = _SGR.sub("", row)
    targets: list[tuple[int, int, str]] = []
    for match in list(_LINK_WORD.finditer(plain))[:_MAX_LINK_WORDS]:
        text = match[0].rstrip(_TRAILING_PUNCTUATION)
        end = match.start() + len(text)
        cut = end == len(plain.rstrip()) and cells(plain) >= width - 1
        if not cut and (target := text if "://" in text else _file_url(text, str(root))):
            targets.append((match.start(), end, target))
    return _insert_links(row, targets) if targets else row


def _insert_links(row: str, targets: list[tuple[int, int, str]]) -> str:
    """Insert link sequences around parts of a row. targets: start and end without the colours, and the target."""
    marks = {start: f"\x1b]8;;{target}\x1b\\" for start, _, target in targets}
    ends = {end for _, end, _ in targets}
    made, at = [], 0
    for part in _SGR.split(row):
        if part.startswith("\x1b"):
            made.append(part)
            continue
        for char in part:
            made.append(marks.get(at, "") + char)
            at += 1
            if at in ends:
                made.append("\x1b]8;;\x1b\\")
    return "".join(made)


def _file_url(text: str, root: str) -> str:
    """Return the address of a file in the project; "" for other words."""
    if "/" not in text and "." not in text[1:]:
        return ""
    path = os.path.normpath(os.path.join(root, text))
    # Elsewhere, a lookup could reach a device or another machine.
    if not path.startswith(f"{root}/") or not os.path.lexists(path):
        return ""
    return f"file://{_host()}{quote(path)}"


@lru_cache(1)
def _host() -> str:
    return quote(socket.gethostname())


Fragment = tuple[str, str]

_ESCAPE = re.compile(r"\x1b\[([0-9;]*)m|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b\[[0-9;?]*[A-Za-z]")
_ON = {1: "bold", 2: "dim", 3: "italic", 4: "underline", 7: "reverse", 9: "strike"}
_OFF = {22: ("bold", "dim"), 23: ("italic",), 24: ("underline",), 27: ("reverse",), 29: ("strike",)}
_NAMES = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "gray")
_BRIGHT = ("brightblack", *(f"bright{name}" for name in _NAMES[1:7]), "white")
_LEVELS = (0, 95, 135, 175, 215, 255)


@lru_cache(2048)
def fragments(line: str, width: int) -> tuple[Fragment, ...]:
    """Return a line as styled text of at most `width` cells; tabs become four spaces."""
    found: list[Fragment] = []
    state: dict[str, str] = {}
    position, left = 0, width
    for match in _ESCAPE.finditer(line):
        left = _add(found, line[position : match.start()], state, left)
        position = match.end()
        if match[1] is not None:
            _apply_codes(state, [int(n or 0) for n in match[1].split(";")])
    _add(found, line[position:], state, left)
    return tuple(found)


def _add(found: list[Fragment], text: str, state: dict[str, str], left: int) -> int:
    if not text or left <= 0:
        return left
    shown = clip(text.replace("\t", "    "), left)
    found.append((" ".join(state.values()), shown))
    return left - cells(shown) if len(shown) == len(text) else left - max(cells(shown), 1)


def cells(text: str) -> int:
    """Return how many cells a text takes as prompt-toolkit draws it: character by character."""
    return len(text) if text.isascii() else sum(get_cwidth(c) for c in text)


def clip(text: str, width: int) -> str:
    """Return the beginning of a text that fits into `width` cells."""
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


def truncate_cells(text: str, width: int) -> str:
    """Shorten a text to one row, with an ellipsis if it was cut."""
    if cells(text) <= width:
        return text
    return clip(text, max(width - 1, 0)) + "…" if width > 0 else ""


def count_rows(lines: Iterable[str], width: int) -> int:
    """Return how many rows plain lines take on a terminal of that width."""
    return sum(max(1, -(-cells(line) // max(width, 1))) for line in lines)


def _apply_codes(state: dict[str, str], codes: list[int]) -> None:
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
            _apply_color(state, "fg" if code == 38 else "bg", codes)
        elif code in (39, 49):
            state.pop("fg" if code == 39 else "bg", None)
        elif 30 <= code <= 37 or 90 <= code <= 97:
            state["fg"] = "fg:ansi" + (_NAMES[code - 30] if code < 40 else _BRIGHT[code - 90])
        elif 40 <= code <= 47 or 100 <= code <= 107:
            state["bg"] = "bg:ansi" + (_NAMES[code - 40] if code < 50 else _BRIGHT[code - 100])


def _apply_color(state: dict[str, str], ground: str, codes: list[int]) -> None:
    """Apply a 256-colour or 24-bit colour code."""
    if codes[:1] == [5] and len(codes) > 1:
        state[ground] = f"{ground}:{_indexed_color(codes[1])}"
        del codes[:2]
    elif codes[:1] == [2] and len(codes) > 3:
        red, green, blue = codes[1:4]
        state[ground] = f"{ground}:#{red:02x}{green:02x}{blue:02x}"
        del codes[:4]


def _indexed_color(number: int) -> str:
    if number < 16:
        return "ansi" + (_NAMES + _BRIGHT)[number]
    if number < 232:
        red, rest = divmod(number - 16, 36)
        green, blue = divmod(rest, 6)
        return f"#{_LEVELS[red]:02x}{_LEVELS[green]:02x}{_LEVELS[blue]:02x}"
    grey = 8 + 10 * (min(number, 255) - 232)
    return f"#{grey:02x}{grey:02x}{grey:02x}"


_WORD = re.compile(r"\s*\S+\s*")
_CONSOLE = Console(file=io.StringIO(), width=80, color_system=None, force_terminal=False, legacy_windows=False)


def wrap(text: Text, width: int) -> list[Text]:
    """Wrap a text into lines of at most `width` cells; a blank text has none.

    Longer words are cut, but a URL stays whole for the terminal to wrap, so it can be clicked and copied.
    """
    if not text.plain.strip():
        return []
    if "://" not in text.plain:
        lines = list(text.wrap(_CONSOLE, max(width, 1), overflow="fold"))
    else:
        lines = [row for line in text.split("\n", allow_blank=True) for row in _around_urls(line, max(width, 1))]
    for line in lines:
        line.rstrip()
    return lines


def _around_urls(line: Text, width: int) -> Iterator[Text]:
    """Yield the rows of a line, none divided inside an address."""
    breaks, used = [], 0
    for word in _WORD.finditer(line.plain):
        if used and used + cells(word[0].rstrip()) > width:
            breaks.append(word.start())
            used = 0
        used += cells(word[0])
    for row in line.divide(breaks):
        if cells(row.plain.rstrip()) <= width or "://" in row.plain:
            yield row
        else:
            yield from row.wrap(_CONSOLE, width, overflow="fold")


def to_ansi(text: Text, *, color: bool = True) -> str:
    """Return one line with its styles as SGR sequences; any other sequence in the text is escaped.

    color: False keeps bold, italic and underline, as NO_COLOR does.
    """
    if not text.style and not text.spans:
        return escape_controls(text.plain).replace("\n", "\\n")
    out = []
    if text.style and not text.spans:  # which Rich leaves to its console
        text = text.copy()
        text.stylize(text.style)
    for segment in text.render(_CONSOLE, end=""):
        words = escape_controls(segment.text).replace("\n", "\\n")
        style = segment.style
        if style and words:
            style = _without_extras(style, color=color)
            out.append(style.render(words, color_system=ColorSystem.STANDARD))
        else:
            out.append(words)
    return "".join(out)


def _without_extras(style: Style, *, color: bool) -> Style:
    """Return the style without a link, which is a sequence of its own, and without colours unless wanted."""
    if style.link:
        style = style.update_link(None)
    return style if color else style.without_color


SAVE_TITLE, RESTORE_TITLE = "\x1b[22;0t", "\x1b[23;0t"
ATTENTION = "\a\x1b]9;agent waits for you\x1b\\"
# Seconds of work after which the user's attention is requested.
ATTENTION_SECONDS = 5.0


def title_sequence(task: str, state: str = "") -> str:
    """Return the title sequence. task: current task, in the user's words. state: a sign before it."""
    words = shorten(one_line(task), 60)
    name = f"agent: {words}" if words else "agent"
    return f"\x1b]0;{state}{name}\a"


# The limit of xterm, which nearly all terminals accept; none reports its own.
MAX_CLIPBOARD_CHARS = 74_994


def clipboard_sequence(text: str) -> str | None:
    """Return the sequence that puts a text on the clipboard; None if it is too long for terminals.

    The text is Base64 in the sequence, so nothing in it can end the sequence or begin another.
    """
    coded = b64encode(text.encode("utf-8", "replace")).decode("ascii")
    return f"\x1b]52;c;{coded}\x07" if len(coded) <= MAX_CLIPBOARD_CHARS else None
